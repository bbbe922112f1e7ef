//! Runs a shader: every operation for a group of pixels before the next one, so that the cost of finding out what to do is shared.
//!
//! A group is two rows of 32 pixels, counted from the bottom. A pixel that does not take part, after a branch or `break`, is left
//! out by a mask; those beyond an edge of the picture run, too, since slopes need a neighbour.

mod compute;

use std::ops::Range;

use images::Frame;
use images::kernel::output_bytes;
use images::parallel::{spread, threads};
use rayon::prelude::*;

use super::operation::{Function, GLOBAL, Loop, Operation, Register};
use super::{Program, Texture};
use crate::{NodeContext, NodeError};
use compute::Lanes;

/// Pixels of a group, and of a row of one.
const LANES: usize = 64;
const ACROSS: usize = LANES / 2;

/// Most operations for one group of pixels of a node.
pub(crate) const MOST_STEPS: u64 = 1 << 22;

/// After so many it is asked whether to stop.
const CHECKED: u64 = 1 << 12;

/// What a shader is run with.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) program: &'a Program,
    /// Registers of uniforms and their bits.
    pub(crate) uniforms: &'a [(Register, u32)],
    /// Textures by sampler.
    pub(crate) textures: &'a [Texture],
    pub(crate) size: (usize, usize),
    /// So many outputs are kept, by location.
    pub(crate) outputs: usize,
    /// Most operations for one group of pixels.
    pub(crate) most_steps: u64,
}

impl Run<'_> {
    /// Bytes that a run takes besides its pictures: their rows before they are put together, and the registers of all threads.
    pub(crate) fn bytes(&self) -> u64 {
        let (width, height) = self.size;
        let registers = self.program.registers + self.program.globals;
        let registers = registers * threads() * size_of::<Lanes>();
        output_bytes(self.outputs, height, width, 4).saturating_add(registers as u64)
    }

    /// The pictures of the outputs, of four channels each.
    pub(crate) fn render(&self, context: &NodeContext) -> Result<Vec<Frame>, NodeError> {
        let (width, height) = self.size;
        let pairs = height.div_ceil(2);
        let rows: Result<Vec<Vec<f32>>, NodeError> = spread(|| {
            let rows = (0..pairs).into_par_iter();
            let machine = || Machine::new(self, context);
            rows.map_init(machine, |machine, pair| machine.rows(2 * pair))
                .collect()
        });
        let rows = rows?;
        let frame = |output: usize| {
            let mut data = Vec::with_capacity(height * width * 4);
            for row in (0..height).rev() {
                let from = (output * 2 + row % 2) * width * 4;
                data.extend_from_slice(&rows[row / 2][from..from + width * 4]);
            }
            Frame::new(height, width, 4, data)
        };
        Ok((0..self.outputs).map(frame).collect())
    }
}

struct Machine<'a> {
    run: &'a Run<'a>,
    context: &'a NodeContext,
    registers: Vec<Lanes>,
    /// Global registers as each group finds them; none where no global variable is given a value while it runs.
    globals: Vec<Lanes>,
    /// Where the frame begins of the function that runs.
    base: usize,
    /// All bits of a pixel that runs, none of one that does not.
    active: Lanes,
    returned: Lanes,
    discarded: Lanes,
    /// Those that wait for the next turn of the innermost loop.
    continued: Lanes,
    steps: u64,
}

const NONE: Lanes = [0; LANES];
const ALL: Lanes = [u32::MAX; LANES];

fn without(mask: Lanes, gone: &Lanes) -> Lanes {
    std::array::from_fn(|lane| mask[lane] & !gone[lane])
}

fn with(mask: Lanes, more: &Lanes) -> Lanes {
    std::array::from_fn(|lane| mask[lane] | more[lane])
}

fn is_any(mask: &Lanes) -> bool {
    mask.iter().fold(0, |all, lane| all | lane) != 0
}

impl<'a> Machine<'a> {
    fn new(run: &'a Run<'a>, context: &'a NodeContext) -> Self {
        let mut machine = Self {
            run,
            context,
            registers: vec![NONE; run.program.registers],
            globals: Vec::new(),
            base: run.program.globals,
            active: ALL,
            returned: NONE,
            discarded: NONE,
            continued: NONE,
            steps: 0,
        };
        for (register, bits) in run.program.constants.iter().chain(run.uniforms) {
            let at = machine.at(*register);
            machine.registers[at] = [*bits; LANES];
        }
        machine.fill(&run.program.front, |_| 1);
        if !run.program.start.body.is_empty() {
            machine.globals = machine.registers[..run.program.globals].to_vec();
        }
        machine
    }

    fn at(&self, register: Register) -> usize {
        match register.checked_sub(GLOBAL) {
            Some(global) => global as usize,
            None => self.base + register as usize,
        }
    }

    fn fill(&mut self, registers: &[Register], bits: impl Fn(usize) -> u32) {
        for register in registers {
            let at = self.at(*register);
            self.registers[at] = std::array::from_fn(&bits);
        }
    }

    /// Two rows of the picture from one on, counted from the bottom: of each output one behind the other.
    fn rows(&mut self, first: usize) -> Result<Vec<f32>, NodeError> {
        let (width, height) = self.run.size;
        let outputs = self.run.outputs;
        let mut rows = vec![0.0; outputs * 2 * width * 4];
        for column in (0..width).step_by(ACROSS) {
            self.group(column, first)?;
            for (output, registers) in &self.run.program.outputs {
                if *output >= outputs {
                    continue;
                }
                let kept = (0..LANES).filter(|lane| {
                    let is_inside =
                        column + lane % ACROSS < width && first + lane / ACROSS < height;
                    is_inside && self.discarded[*lane] == 0
                });
                for lane in kept {
                    let row = output * 2 + lane / ACROSS;
                    let pixel = (row * width + column + lane % ACROSS) * 4;
                    for (channel, register) in registers.iter().enumerate() {
                        let bits = self.registers[self.at(*register)][lane];
                        rows[pixel + channel] = f32::from_bits(bits);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Runs the whole shader for the group of pixels that begins here.
    fn group(&mut self, column: usize, row: usize) -> Result<(), NodeError> {
        let program = self.run.program;
        let (width, height) = self.run.size;
        self.context.check()?;
        self.steps = 0;
        self.base = program.globals;
        // What a group finds must not depend on the one that its thread drew before.
        self.registers[program.globals..].fill(NONE);
        self.registers[..self.globals.len()].copy_from_slice(&self.globals);
        (self.active, self.returned, self.discarded, self.continued) = (ALL, NONE, NONE, NONE);
        let x = |lane: usize| (column + lane % ACROSS) as f32 + 0.5;
        let y = |lane: usize| (row + lane / ACROSS) as f32 + 0.5;
        self.fill(&program.position[..1], |lane| x(lane).to_bits());
        self.fill(&program.position[1..2], |lane| y(lane).to_bits());
        self.fill(&program.position[2..3], |_| 0.5_f32.to_bits());
        self.fill(&program.position[3..], |_| 1.0_f32.to_bits());
        self.fill(&program.coordinate[..1], |lane| {
            (x(lane) / width as f32).to_bits()
        });
        self.fill(&program.coordinate[1..], |lane| {
            (y(lane) / height as f32).to_bits()
        });
        for (_, registers) in &program.outputs {
            self.fill(registers, |_| 0);
        }
        self.function(&program.start)?;
        self.active = without(ALL, &self.discarded);
        self.function(&program.functions[program.main])
    }

    fn function(&mut self, function: &Function) -> Result<(), NodeError> {
        let before = std::mem::replace(&mut self.returned, NONE);
        let within = self.active;
        let frame = self.base;
        let size = function.size;
        self.body(&function.body, frame..frame + size)?;
        self.returned = before;
        self.active = without(within, &self.discarded);
        Ok(())
    }

    fn step(&mut self) -> Result<(), NodeError> {
        self.steps += 1;
        if self.steps.is_multiple_of(CHECKED) {
            self.context.check()?;
        }
        let most = self.run.most_steps;
        match self.steps > most {
            false => Ok(()),
            true => Err(NodeError::value(format!(
                "the shader takes more than {most} steps for a pixel; make its loops shorter"
            ))),
        }
    }

    /// Operations of a function whose frame is here.
    fn body(&mut self, operations: &[Operation], frame: Range<usize>) -> Result<(), NodeError> {
        for operation in operations {
            self.step()?;
            match operation {
                Operation::If {
                    condition,
                    chosen,
                    other,
                } => {
                    let truth = self.registers[self.at(*condition)];
                    let within = self.active;
                    let taken: Lanes =
                        std::array::from_fn(|lane| within[lane] & truth[lane].wrapping_neg());
                    self.active = taken;
                    if is_any(&taken) {
                        self.body(chosen, frame.clone())?;
                    }
                    let after = std::mem::replace(&mut self.active, without(within, &taken));
                    if is_any(&self.active) {
                        self.body(other, frame.clone())?;
                    }
                    self.active = with(after, &self.active);
                }
                Operation::Loop(looped) => self.run_loop(looped, &frame)?,
                Operation::Switch(operations) => {
                    let within = self.active;
                    let waiting = self.continued;
                    self.body(operations, frame.clone())?;
                    let left = with(
                        with(self.returned, &self.discarded),
                        &without(self.continued, &waiting),
                    );
                    self.active = without(within, &left);
                }
                Operation::Call { function } => {
                    self.base = frame.end;
                    self.function(&self.run.program.functions[*function])?;
                    self.base = frame.start;
                }
                Operation::Pass { to, from } => {
                    let from = self.at(*from);
                    self.registers[frame.end + *to as usize] = self.registers[from];
                }
                Operation::Returned { to, from } => {
                    let to = self.at(*to);
                    self.registers[to] = self.registers[frame.end + *from as usize];
                }
                Operation::Break => self.active = NONE,
                Operation::Continue => {
                    self.continued = with(self.continued, &self.active);
                    self.active = NONE;
                }
                Operation::Return => {
                    self.returned = with(self.returned, &self.active);
                    self.active = NONE;
                }
                Operation::Discard => {
                    self.discarded = with(self.discarded, &self.active);
                    self.active = NONE;
                }
                Operation::Copy { .. }
                | Operation::Unary { .. }
                | Operation::Binary { .. }
                | Operation::Select { .. }
                | Operation::LoadAt { .. }
                | Operation::StoreAt { .. }
                | Operation::Sample { .. }
                | Operation::Fetch { .. }
                | Operation::Size { .. }
                | Operation::Slope { .. } => {
                    self.compute(operation);
                    continue;
                }
            }
            if !is_any(&self.active) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn run_loop(&mut self, looped: &Loop, frame: &Range<usize>) -> Result<(), NodeError> {
        let within = self.active;
        let waiting = std::mem::replace(&mut self.continued, NONE);
        let mut asks = !looped.body_first;
        loop {
            if asks {
                self.body(&looped.condition, frame.clone())?;
                if let Some(goes_on) = looped.goes_on {
                    let truth = self.registers[self.at(goes_on)];
                    self.active =
                        std::array::from_fn(|lane| self.active[lane] & truth[lane].wrapping_neg());
                }
            }
            asks = true;
            // A turn of an empty loop counts, too.
            self.step()?;
            if !is_any(&self.active) {
                break;
            }
            self.body(&looped.body, frame.clone())?;
            let continued = std::mem::replace(&mut self.continued, NONE);
            self.active = with(self.active, &continued);
            if !is_any(&self.active) {
                break;
            }
            self.body(&looped.step, frame.clone())?;
        }
        self.continued = waiting;
        self.active = without(within, &with(self.returned, &self.discarded));
        Ok(())
    }
}
