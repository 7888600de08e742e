//! The font of figures: Liberation Sans, which has the widths of Arial and Helvetica.

use ttf_parser::{Face, GlyphId};

/// The font, so that figures are the same on every machine.
pub(super) const BYTES: &[u8] = include_bytes!("../../fonts/LiberationSans-Regular.ttf");

/// Families to choose from where the font is not in the file, as in SVG.
pub(super) const FAMILY: &str = "Liberation Sans, Arial, Helvetica, sans-serif";

/// The font, read.
pub(super) struct Font {
    pub face: Face<'static>,
    /// Units of the font in an em.
    pub units: f64,
}

impl Font {
    pub fn new() -> Font {
        let face = Face::parse(BYTES, 0).expect("the font is part of the program");
        let units = f64::from(face.units_per_em());
        Font { face, units }
    }

    /// The glyph of a character; that of a missing one where the font has none.
    pub fn glyph(&self, c: char) -> GlyphId {
        self.face.glyph_index(c).unwrap_or(GlyphId(0))
    }

    /// Advance of a glyph in ems.
    pub fn advance(&self, glyph: GlyphId) -> f64 {
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or(0)) / self.units
    }

    /// Width of a text at a size, in the unit of the size.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        text.chars().map(|c| self.advance(self.glyph(c))).sum::<f64>() * size
    }
}
