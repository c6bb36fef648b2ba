//! Paging flags of verbs that print one page of a list.

use std::str::FromStr;

use clap::builder::RangedU64ValueParser;
use coven_api::list::{BadCursor, ListKey, MAX_LIMIT, PageQuery};

use crate::failure::Failure;
use crate::output;

const DEFAULT_LIMIT: usize = 100;

#[derive(Debug, Default, clap::Args)]
pub struct PageArgs {
    /// Maximum number of items [default: 100]
    #[arg(long, value_name = "N", value_parser = limit())]
    pub limit: Option<usize>,
    /// Start after another page: its `next` value
    #[arg(long)]
    pub cursor: Option<String>,
}

impl PageArgs {
    /// Page size of a list that this program reads without the daemon.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// Place that the cursor of such a list names.
    pub fn place<P: FromStr>(&self, list: ListKey) -> Result<Option<P>, Failure> {
        place(list, self.cursor.as_deref())
    }
}

/// Reads the place that a cursor of this list names.
pub fn place<P: FromStr>(list: ListKey, cursor: Option<&str>) -> Result<Option<P>, Failure> {
    list.place(cursor).map_err(|error: BadCursor| Failure::usage(error.to_string(), "Omit --cursor for the first page"))
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

/// Prints how to get the next page.
pub fn print_next_page(next: Option<&str>) {
    if let Some(next) = next {
        output::note(format_args!("next page: --cursor {next}"));
    }
}
