//! Matrices: column after column, as in OpenGL.

use super::super::kinds::{Base, FLOAT, Type};
use super::super::operation::{Binary, Register, Unary};
use super::{Lowering, Value};

impl Lowering {
    /// A product with a matrix on either side or on both.
    pub(super) fn multiplied(&mut self, left: &Value, right: &Value) -> Option<Value> {
        let (l, r) = (&left.registers, &right.registers);
        match (&left.kind, &right.kind) {
            (Type::Matrix(size), Type::Matrix(other)) if size == other => {
                let size = *size;
                let cells = (0..size * size).map(|at| {
                    let (column, row) = (at / size, at % size);
                    let pairs = (0..size).map(|k| (l[k * size + row], r[column * size + k]));
                    self.summed(pairs.collect())
                });
                let cells = cells.collect();
                Some(Value::new(left.kind.clone(), cells))
            }
            (Type::Matrix(size), Type::Vector(Base::Float, other)) if size == other => {
                let size = *size;
                let rows = (0..size).map(|row| {
                    let pairs = (0..size).map(|k| (l[k * size + row], r[k]));
                    self.summed(pairs.collect())
                });
                let rows = rows.collect();
                Some(Value::new(right.kind.clone(), rows))
            }
            (Type::Vector(Base::Float, other), Type::Matrix(size)) if size == other => {
                let size = *size;
                let columns = (0..size).map(|column| {
                    let pairs = (0..size).map(|k| (l[k], r[column * size + k]));
                    self.summed(pairs.collect())
                });
                let columns = columns.collect();
                Some(Value::new(left.kind.clone(), columns))
            }
            (Type::Matrix(_), Type::Vector(Base::Float, 1)) => {
                Some(self.spread(Binary::Multiply, left, right, left.kind.clone()))
            }
            (Type::Vector(Base::Float, 1), Type::Matrix(_)) => {
                Some(self.spread(Binary::Multiply, left, right, right.kind.clone()))
            }
            _ => None,
        }
    }

    /// The sum of the products of pairs.
    pub(super) fn summed(&mut self, pairs: Vec<(Register, Register)>) -> Register {
        let mut sum = None;
        for (left, right) in pairs {
            let product = self.both(Binary::Multiply, left, right);
            sum = Some(match sum {
                None => product,
                Some(sum) => self.both(Binary::Add, sum, product),
            });
        }
        match sum {
            Some(sum) => sum,
            None => self.float(0.0),
        }
    }

    /// The determinant of a square of cells, by its first row.
    fn determinant(&mut self, cells: &[Register], size: usize) -> Register {
        if size == 1 {
            return cells[0];
        }
        let mut sum = None;
        for at in 0..size {
            let minor = self.minor(cells, size, at, 0);
            let part = self.both(Binary::Multiply, cells[at * size], minor);
            sum = Some(match sum {
                None => part,
                Some(sum) if at % 2 == 1 => self.both(Binary::Subtract, sum, part),
                Some(sum) => self.both(Binary::Add, sum, part),
            });
        }
        sum.unwrap_or(cells[0])
    }

    /// The determinant without a column and a row.
    fn minor(&mut self, cells: &[Register], size: usize, column: usize, row: usize) -> Register {
        let kept = (0..size * size).filter(|at| at / size != column && at % size != row);
        let kept: Vec<Register> = kept.map(|at| cells[at]).collect();
        self.determinant(&kept, size - 1)
    }

    /// A function of matrices.
    pub(super) fn of_matrix(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        if let ("outerProduct", [column, row]) = (name, arguments) {
            let size = column.registers.len();
            let is_fit = column.kind == row.kind && column.kind == Type::Vector(Base::Float, size);
            let pairs = row
                .registers
                .iter()
                .flat_map(|r| column.registers.iter().map(move |c| (*c, *r)));
            let pairs: Vec<_> = pairs.collect();
            let cells = pairs
                .into_iter()
                .map(|(c, r)| self.both(Binary::Multiply, c, r));
            return (is_fit && size > 1).then(|| Value::new(Type::Matrix(size), cells.collect()));
        }
        let [first, ..] = arguments else { return None };
        let Type::Matrix(size) = first.kind else {
            return None;
        };
        let cells = &first.registers;
        match (name, arguments) {
            ("matrixCompMult", [_, second]) if second.kind == first.kind => {
                Some(self.spread(Binary::Multiply, first, second, first.kind.clone()))
            }
            ("transpose", [_]) => {
                let turned = (0..size * size).map(|at| cells[at % size * size + at / size]);
                Some(Value::new(first.kind.clone(), turned.collect()))
            }
            ("determinant", [_]) => Some(Value::new(FLOAT, vec![self.determinant(cells, size)])),
            ("inverse", [_]) => {
                let determinant = self.determinant(cells, size);
                let inverse = (0..size * size).map(|at| {
                    let (column, row) = (at / size, at % size);
                    let mut part = self.minor(cells, size, row, column);
                    if (column + row) % 2 == 1 {
                        part = self.single(Unary::Negate, part);
                    }
                    self.both(Binary::Divide, part, determinant)
                });
                let inverse = inverse.collect();
                Some(Value::new(first.kind.clone(), inverse))
            }
            _ => None,
        }
    }
}
