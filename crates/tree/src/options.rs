//! Options of a tree keyspace.

use std::ops::RangeInclusive;

use ecotone_engine::options::{self, EngineOptions, SWITCH, by_number, number, one_of, switch};
use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader, Writer},
};

use super::{forecast::ForecastKind, index::MOST_PAGES, layout::Model};

const FILL: RangeInclusive<u8> = 50..=100;
const NEIGHBOURS: RangeInclusive<u8> = 0..=16;
const SEGMENT_PAGES: RangeInclusive<u8> = 1..=MOST_PAGES;

/// Options of the tree engine: update-in-place pages behind a record cache. They are fixed when a keyspace is created,
/// and [`check`](Self::check)ed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct TreeOptions {
    /// Percent of a page that reorganisation and bulk load fill, 50 to 100. Default 90. Less leaves space for inserts;
    /// more packs cold data.
    pub fill: u8,
    /// The most segments on each side that a reorganisation includes, 0 to 16. Default 5 (r of TreeLine §4.2).
    pub neighbours: u8,
    /// The most pages of a segment, 1 to 16. Default 16 (TreeLine §4.1). More make a smaller index and cheaper scans; 1
    /// is a plain index of pages.
    pub segment_pages: u8,
    /// How the lines of segments are fitted. Default [`Model::Optimal`], piecewise linear approximation.
    /// [`Model::Greedy`] (TreeLine's thesis, ch. 4) is less work.
    pub model: Model,
    /// How inserts are predicted from past ones, so that reorganisation leaves space for them. Default
    /// [`ForecastKind::Off`] (TreeLine §4.6). A forecast saves reorganisations in a keyspace that grows much, and costs
    /// space.
    pub forecast: ForecastKind,
    /// Whether the record cache keeps records after they are written out. Default true. False is a cache of capacity
    /// zero (TreeLine §5.3), for a keyspace whose reads hardly repeat, beside others that share the cache.
    pub record_cache: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            fill: 90,
            neighbours: 5,
            segment_pages: MOST_PAGES,
            model: Model::Optimal,
            forecast: ForecastKind::Off,
            record_cache: true,
        }
    }
}

impl TreeOptions {
    /// Sets [`fill`](field@Self::fill).
    pub fn fill(self, percent: u8) -> Self {
        TreeOptions { fill: percent, ..self }
    }

    /// Sets [`neighbours`](field@Self::neighbours).
    pub fn neighbours(self, segments: u8) -> Self {
        TreeOptions { neighbours: segments, ..self }
    }

    /// Sets [`segment_pages`](field@Self::segment_pages).
    pub fn segment_pages(self, pages: u8) -> Self {
        TreeOptions { segment_pages: pages, ..self }
    }

    /// Sets [`model`](field@Self::model).
    pub fn model(self, model: Model) -> Self {
        TreeOptions { model, ..self }
    }

    /// Sets [`forecast`](field@Self::forecast).
    pub fn forecast(self, forecast: ForecastKind) -> Self {
        TreeOptions { forecast, ..self }
    }

    /// Sets [`record_cache`](field@Self::record_cache).
    pub fn record_cache(self, is_on: bool) -> Self {
        TreeOptions { record_cache: is_on, ..self }
    }

    /// Sets an option by its name, for tools. The names are those of the fields; switches are `on` and `off`.
    ///
    /// # Errors
    /// If there is no such option, or the value is out of its range.
    pub fn set(self, name: &str, value: &str) -> Result<Self> {
        EngineOptions::set(self, name, value)
    }

    /// Checks that each option is in its range.
    ///
    /// # Errors
    /// If one is not; the error names it and the range.
    pub fn check(&self) -> Result<()> {
        EngineOptions::check(self)
    }

    /// Appends the options to a root.
    pub(crate) fn encode(self, w: &mut Writer) {
        w.u8(self.fill).u8(self.neighbours).u8(self.segment_pages);
        w.u8(self.model as u8).u8(self.forecast as u8).u8(u8::from(self.record_cache));
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub(crate) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let (fill, neighbours, segment_pages) = (r.u8()?, r.u8()?, r.u8()?);
        let model = by_number(&Model::ALL, r.u8()?, r, "the kind of model is not known")?;
        let forecast = by_number(&ForecastKind::ALL, r.u8()?, r, "the kind of forecast is not known")?;
        let record_cache = match r.u8()? {
            0 => false,
            1 => true,
            _ => return r.fail("the record cache is neither on nor off"),
        };
        TreeOptions { fill, neighbours, segment_pages, model, forecast, record_cache }.checked()
    }

    /// Checks options from disk against their ranges.
    pub(crate) fn checked(self) -> std::result::Result<Self, Malformed> {
        self.check().map(|()| self).map_err(|_| Malformed::new(0, "an option of a tree is out of bounds"))
    }
}

impl EngineOptions for TreeOptions {
    fn set(mut self, name: &str, value: &str) -> Result<Self> {
        match name {
            "fill" => self.fill = number((name, value), "a number", &FILL)?,
            "neighbours" => self.neighbours = number((name, value), "a number", &NEIGHBOURS)?,
            "segment_pages" => self.segment_pages = number((name, value), "a number", &SEGMENT_PAGES)?,
            "model" => self.model = value.parse()?,
            "forecast" => self.forecast = value.parse()?,
            "record_cache" => self.record_cache = one_of(name, value, &SWITCH)?,
            _ => return Err(options::unknown("tree", name, &self.values())),
        }
        Ok(self)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("fill", self.fill.to_string()),
            ("neighbours", self.neighbours.to_string()),
            ("segment_pages", self.segment_pages.to_string()),
            ("model", self.model.to_string()),
            ("forecast", self.forecast.to_string()),
            ("record_cache", switch(self.record_cache)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineOptions, ForecastKind, Model, TreeOptions};

    #[test]
    fn settings_are_read_and_checked() {
        let set = |name: &str, value: &str| TreeOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("fill", "75").unwrap().fill, 75);
        assert_eq!(set("neighbours", "0").unwrap().neighbours, 0);
        assert_eq!(set("segment_pages", "1").unwrap().segment_pages, 1);
        assert_eq!(set("model", "greedy").unwrap().model, Model::Greedy);
        assert_eq!(set("forecast", "auto").unwrap().forecast, ForecastKind::Auto);
        assert!(!set("record_cache", "off").unwrap().record_cache && set("record_cache", "on").unwrap().record_cache);
        let bad = [
            ("forecast", "on"),
            ("record_cache", "0"),
            ("fill", "101"),
            ("fill", "x"),
            ("neighbours", "-1"),
            ("segment_pages", "17"),
            ("model", "best"),
            ("speed", "9"),
        ];
        for (name, value) in bad {
            assert!(set(name, value).unwrap_err().to_string().contains(name));
        }
    }
}
