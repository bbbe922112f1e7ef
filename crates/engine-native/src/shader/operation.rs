//! What a shader is lowered to: operations on registers, each of one component of 32 bits for every pixel of a group.

/// A register: of the frame of the function that runs, or above [`GLOBAL`] one that all share.
pub(super) type Register = u32;

/// Where the registers begin that all functions share.
pub(super) const GLOBAL: Register = 1 << 31;

/// The body of a function.
#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) body: Vec<Operation>,
    /// The most blocks that stand in one another, those of the functions that it calls counted.
    pub(super) deepest: usize,
    /// Registers of its frame.
    pub(super) size: usize,
    /// Registers of the chain of calls that is the largest, with its own.
    pub(super) reach: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// For the pixels that run; all others of this list write where none looks, unless they say so.
    Copy {
        to: Register,
        from: Register,
    },
    Unary {
        way: Unary,
        to: Register,
        from: Register,
    },
    Binary {
        way: Binary,
        to: Register,
        from: [Register; 2],
    },
    /// The second where the first is true, else the third.
    Select {
        to: Register,
        from: [Register; 3],
    },
    /// One of several, by an index that is held within them.
    LoadAt {
        to: Register,
        index: Register,
        from: Vec<Register>,
    },
    /// As [`Operation::Copy`], to one of several.
    StoreAt {
        to: Vec<Register>,
        index: Register,
        from: Register,
    },
    /// A texture at a point of the unit square.
    Sample {
        to: [Register; 4],
        texture: usize,
        at: [Register; 2],
    },
    /// A texel of a texture.
    Fetch {
        to: [Register; 4],
        texture: usize,
        at: [Register; 2],
    },
    /// Width and height of a texture.
    Size {
        to: [Register; 2],
        texture: usize,
    },
    /// How much a value changes to the next pixel, across or up.
    Slope {
        to: Register,
        from: Register,
        is_across: bool,
    },
    If {
        condition: Register,
        chosen: Vec<Operation>,
        other: Vec<Operation>,
    },
    Loop(Box<Loop>),
    /// Operations that `break` leaves.
    Switch(Vec<Operation>),
    /// A function, whose frame lies behind that of the caller.
    Call {
        function: usize,
    },
    /// From the frame of the caller into that of a function that is called next.
    Pass {
        to: Register,
        from: Register,
    },
    /// Out of the frame of the function that was called.
    Returned {
        to: Register,
        from: Register,
    },
    Break,
    Continue,
    Return,
    Discard,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Loop {
    /// Comes to whether the loop goes on.
    pub(super) condition: Vec<Operation>,
    pub(super) goes_on: Option<Register>,
    pub(super) body: Vec<Operation>,
    pub(super) step: Vec<Operation>,
    pub(super) body_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    NegateInt,
    Not,
    Complement,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Exp,
    Log,
    Exp2,
    Log2,
    Sqrt,
    InverseSqrt,
    Abs,
    AbsInt,
    Sign,
    SignInt,
    Floor,
    Ceil,
    Trunc,
    Round,
    RoundEven,
    Fract,
    IsNan,
    IsInf,
    IntToFloat,
    UintToFloat,
    FloatToInt,
    FloatToUint,
    FloatToBool,
    BoolToFloat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    AddInt,
    SubtractInt,
    MultiplyInt,
    DivideInt,
    DivideUint,
    RemainderInt,
    RemainderUint,
    ShiftLeft,
    ShiftRightInt,
    ShiftRightUint,
    And,
    Or,
    Xor,
    Less,
    LessInt,
    LessUint,
    LessEqual,
    LessEqualInt,
    LessEqualUint,
    Equal,
    EqualBits,
    Modulo,
    Power,
    Atan2,
    Min,
    Max,
    MinInt,
    MaxInt,
    MinUint,
    MaxUint,
}

impl Operation {
    /// Whether it may run for pixels for which it does not count.
    pub(super) fn is_pure(&self) -> bool {
        match self {
            Self::Unary { .. }
            | Self::Binary { .. }
            | Self::Select { .. }
            | Self::LoadAt { .. }
            | Self::Sample { .. }
            | Self::Fetch { .. }
            | Self::Size { .. }
            | Self::Slope { .. } => true,
            Self::Copy { .. }
            | Self::StoreAt { .. }
            | Self::If { .. }
            | Self::Loop(_)
            | Self::Switch(_)
            | Self::Call { .. }
            | Self::Pass { .. }
            | Self::Returned { .. }
            | Self::Break
            | Self::Continue
            | Self::Return
            | Self::Discard => false,
        }
    }
}
