//! Types of GLSL, and how many components a value of each has.

use std::fmt;
use std::sync::Arc;

use super::syntax::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Float,
    Int,
    Uint,
    Bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Void,
    /// One component or up to four.
    Vector(Base, usize),
    /// As many columns as rows.
    Matrix(usize),
    Sampler,
    Array(Box<Type>, usize),
    Struct(Arc<Struct>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Struct {
    pub(super) name: Name,
    pub(super) fields: Vec<(Name, Type)>,
    /// Registers that a value takes.
    pub(super) size: usize,
    /// How many structures stand in one another, this one counted.
    pub(super) depth: usize,
}

pub(super) const FLOAT: Type = Type::Vector(Base::Float, 1);
pub(super) const INT: Type = Type::Vector(Base::Int, 1);
pub(super) const BOOL: Type = Type::Vector(Base::Bool, 1);

impl Type {
    /// The type of a name that is no structure's.
    pub(super) fn named(name: &str) -> Option<Self> {
        let sized = |base, size: &str| Some(Self::Vector(base, size.parse().ok()?));
        Some(match name {
            "void" => Self::Void,
            "float" => FLOAT,
            "int" => INT,
            "uint" => Self::Vector(Base::Uint, 1),
            "bool" => BOOL,
            "sampler2D" => Self::Sampler,
            "vec2" | "vec3" | "vec4" => sized(Base::Float, &name[3..])?,
            "ivec2" | "ivec3" | "ivec4" => sized(Base::Int, &name[4..])?,
            "uvec2" | "uvec3" | "uvec4" => sized(Base::Uint, &name[4..])?,
            "bvec2" | "bvec3" | "bvec4" => sized(Base::Bool, &name[4..])?,
            "mat2" | "mat3" | "mat4" => Self::Matrix(name[3..].parse().ok()?),
            _ => return None,
        })
    }

    /// Registers that a value takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Void | Self::Sampler => 0,
            Self::Vector(_, size) => *size,
            Self::Matrix(size) => size * size,
            Self::Array(of, length) => of.size().saturating_mul(*length),
            Self::Struct(of) => of.size,
        }
    }

    /// How many structures stand in one another.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Array(of, _) => of.depth(),
            Self::Struct(of) => of.depth,
            Self::Void | Self::Vector(..) | Self::Matrix(_) | Self::Sampler => 0,
        }
    }

    /// What its components are, if all are the same and it is no array.
    pub(super) fn base(&self) -> Option<Base> {
        match self {
            Self::Vector(base, _) => Some(*base),
            Self::Matrix(_) => Some(Base::Float),
            Self::Void | Self::Sampler | Self::Array(..) | Self::Struct(_) => None,
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Self::Vector(_, 1))
    }

    /// What an index of it gives, and how many there are.
    pub(super) fn element(&self) -> Option<(Self, usize)> {
        match self {
            Self::Vector(base, size) if *size > 1 => Some((Self::Vector(*base, 1), *size)),
            Self::Matrix(size) => Some((Self::Vector(Base::Float, *size), *size)),
            Self::Array(of, length) => Some(((**of).clone(), *length)),
            Self::Vector(..) | Self::Void | Self::Sampler | Self::Struct(_) => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Void => out.write_str("void"),
            Self::Sampler => out.write_str("sampler2D"),
            Self::Matrix(size) => write!(out, "mat{size}"),
            Self::Array(of, length) => write!(out, "{of}[{length}]"),
            Self::Struct(of) => out.write_str(&of.name),
            Self::Vector(base, size) => {
                let (one, many) = match base {
                    Base::Float => ("float", "vec"),
                    Base::Int => ("int", "ivec"),
                    Base::Uint => ("uint", "uvec"),
                    Base::Bool => ("bool", "bvec"),
                };
                match size {
                    1 => out.write_str(one),
                    _ => write!(out, "{many}{size}"),
                }
            }
        }
    }
}
