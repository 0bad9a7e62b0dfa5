//! Expressions as text.

use std::fmt;

use super::{Atom, Expr};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return write!(f, "{}", self.constant);
        }
        for (i, term) in self.terms.iter().enumerate() {
            let sign = if term.coefficient < 0 {
                "-"
            } else if i > 0 {
                "+"
            } else {
                ""
            };
            write!(f, "{sign}")?;
            let magnitude = term.coefficient.unsigned_abs();
            if magnitude != 1 {
                write!(f, "{magnitude}*")?;
            }
            for (j, atom) in term.atoms.iter().enumerate() {
                write!(f, "{}{atom}", if j > 0 { "*" } else { "" })?;
            }
        }
        if self.constant != 0 {
            write!(f, "{:+}", self.constant)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Sym(s) => write!(f, "{s}"),
            Atom::Axis(a) => write!(f, "{a}"),
            Atom::FloorDiv(a, b) => write!(f, "floordiv({a},{b})"),
            Atom::CeilDiv(a, b) => write!(f, "ceildiv({a},{b})"),
            Atom::Mod(a, b) => write!(f, "mod({a},{b})"),
            Atom::Min(a, b) => write!(f, "min({a},{b})"),
            Atom::Max(a, b) => write!(f, "max({a},{b})"),
            Atom::Less(a, b) => write!(f, "less({a},{b})"),
            Atom::Equal(a, b) => write!(f, "equal({a},{b})"),
            Atom::Select(c, a, b) => write!(f, "select({c},{a},{b})"),
        }
    }
}
