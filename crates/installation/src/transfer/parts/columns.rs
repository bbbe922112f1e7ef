//! What parts and their columns are made of.

use super::{Column, Kind, Part};

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_compared: true,
    }
}

pub(super) const fn int(name: &'static str) -> Column {
    column(name, Kind::Int)
}

pub(super) const fn small(name: &'static str) -> Column {
    column(name, Kind::Small)
}

pub(super) const fn flag(name: &'static str) -> Column {
    column(name, Kind::Flag)
}

pub(super) const fn real(name: &'static str) -> Column {
    column(name, Kind::Real)
}

pub(super) const fn text(name: &'static str) -> Column {
    column(name, Kind::Text)
}

pub(super) const fn bytes(name: &'static str) -> Column {
    column(name, Kind::Bytes)
}

pub(super) const fn id(name: &'static str) -> Column {
    column(name, Kind::Id)
}

pub(super) const fn made_again(column: Column) -> Column {
    Column {
        is_compared: false,
        ..column
    }
}

pub(super) const fn of(
    name: &'static str,
    key: usize,
    page: usize,
    columns: &'static [Column],
) -> Part {
    Part {
        name,
        columns,
        key,
        page,
    }
}
