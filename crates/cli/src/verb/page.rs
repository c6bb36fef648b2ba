//! The flags of a verb that lists something page by page.

use clap::builder::RangedU64ValueParser;
use coven_api::list::{BadCursor, MAX_LIMIT, PageQuery, TimeCursor};

use crate::failure::Failure;
use crate::output;

const DEFAULT_LIMIT: usize = 100;

#[derive(Debug, Default, clap::Args)]
pub struct PageArgs {
    /// At most this many [default: 100]
    #[arg(long, value_name = "N", value_parser = limit())]
    pub limit: Option<usize>,
    /// The next page: the `next` of the previous one
    #[arg(long)]
    pub cursor: Option<String>,
}

impl PageArgs {
    /// The size of a page of a list that this program reads itself.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// The cursor of such a list.
    pub fn cursor(&self) -> Result<Option<TimeCursor>, Failure> {
        let parsed = self.cursor.as_deref().map(str::parse).transpose();
        parsed.map_err(|error: BadCursor| Failure::usage(error.to_string(), "Leave --cursor out for the first page"))
    }
}

impl From<PageArgs> for PageQuery {
    fn from(PageArgs { limit, cursor }: PageArgs) -> Self {
        Self { limit, cursor }
    }
}

/// Parses the size of a page.
pub fn limit() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MAX_LIMIT as u64)
}

/// Prints below a table how to see the next page.
pub fn say_more(next: Option<&str>) {
    if let Some(next) = next {
        output::note(format_args!("more: add --cursor {next}"));
    }
}
