//! Bounds on the values that a template creates: filters, operators and functions that check sizes first.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};

/// Maximum bytes of one rendered result, and of one value during rendering.
pub(super) const MAX_RESULT: usize = 4 << 20;
/// Maximum bytes that one rendering creates in total: values, captures and output.
pub(super) const MAX_TOTAL: usize = 16 << 20;
/// Bytes counted for each list item and map value in addition to its text; covers the engine's allocation.
const ITEM: usize = 64;
/// Bytes counted for a map, which reserves room for several entries.
const MAP: usize = 600;
/// Maximum length of a number as text, unless it is a 64-bit integer.
const LONG_NUMBER: usize = 400;
/// Growth factor of quoting: a single quote becomes four characters.
const QUOTED: usize = 4;
/// Maximum nesting of lists; the engine prints and frees them recursively.
const MAX_DEPTH: usize = 32;

/// Filter names for operators; templates cannot write them.
pub(super) const ADD: &str = "+";
pub(super) const CONCAT: &str = "~";
pub(super) const REPEAT: &str = "*";
/// Checks a value that the engine has just created.
pub(super) const MADE: &str = "[]";
/// Checks a value before the engine uses it.
pub(super) const READ: &str = "<=";

/// Returns the engine's own filter.
type Builtin = fn() -> Value;
/// Refuses arguments for which the filter would create too large a value, or converts them to a safe form.
type Guard = fn(&mut [Value]) -> Result<(), Error>;

/// Filters that create a value. Other filters are not available.
const MAKERS: &[(&str, Builtin, Guard)] = &[
    ("abs", || Value::from_function(filters::abs), any),
    ("batch", || Value::from_function(filters::batch), grouped),
    ("bool", || Value::from_function(filters::bool), any),
    ("capitalize", || Value::from_function(filters::capitalize), texts),
    ("count", || Value::from_function(filters::length), any),
    ("dictsort", || Value::from_function(filters::dictsort), any),
    ("e", || Value::from_function(filters::escape), texts),
    ("escape", || Value::from_function(filters::escape), texts),
    ("float", || Value::from_function(filters::float), any),
    ("format", || Value::from_function(filters::format), formatted),
    ("groupby", || Value::from_function(filters::groupby), items),
    ("indent", || Value::from_function(filters::indent), indented),
    ("int", || Value::from_function(filters::int), any),
    ("items", || Value::from_function(filters::items), any),
    ("join", || Value::from_function(filters::join), joined),
    ("length", || Value::from_function(filters::length), any),
    ("lines", || Value::from_function(filters::lines), parted),
    ("list", || Value::from_function(filters::list), items),
    ("lower", || Value::from_function(filters::lower), texts),
    ("map", || Value::from_function(filters::map), items),
    ("reject", || Value::from_function(filters::reject), items),
    ("rejectattr", || Value::from_function(filters::rejectattr), items),
    ("replace", || Value::from_function(filters::replace), replaced),
    ("reverse", || Value::from_function(filters::reverse), items),
    ("round", || Value::from_function(filters::round), any),
    ("safe", || Value::from_function(filters::safe), texts),
    ("select", || Value::from_function(filters::select), items),
    ("selectattr", || Value::from_function(filters::selectattr), items),
    ("slice", || Value::from_function(filters::slice), grouped),
    ("sort", || Value::from_function(filters::sort), sorted),
    ("split", || Value::from_function(filters::split), parted),
    ("string", || Value::from_function(filters::string), texts),
    ("sum", || Value::from_function(filters::sum), items),
    ("title", || Value::from_function(filters::title), texts),
    ("trim", || Value::from_function(filters::trim), texts),
    ("unique", || Value::from_function(filters::unique), items),
    ("upper", || Value::from_function(filters::upper), texts),
];

/// Filters that return one of their arguments.
const PICKERS: &[(&str, Builtin)] = &[
    ("attr", || Value::from_function(filters::attr)),
    ("d", || Value::from_function(filters::default)),
    ("default", || Value::from_function(filters::default)),
    ("first", || Value::from_function(filters::first)),
    ("last", || Value::from_function(filters::last)),
    ("max", || Value::from_function(filters::max)),
    ("min", || Value::from_function(filters::min)),
];

pub(super) fn is_filter(name: &str) -> bool {
    // The engine ignores spaces in a name.
    let name: String = name.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    MAKERS.iter().any(|(known, ..)| *known == name) || PICKERS.iter().any(|(known, _)| *known == name)
}

/// Bytes that one rendering has created so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(super) fn spend(&self, bytes: usize) -> Result<(), Error> {
        match self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= MAX_TOTAL {
            true => Ok(()),
            false => Err(invalid(format!(
                "the template creates more than {} MiB of texts and lists in total; shorten them or split the step",
                MAX_TOTAL >> 20
            ))),
        }
    }

    #[cfg(test)]
    pub(super) fn spent(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges a fraction for reading: a large list could be read a million times.
    fn read(&self, values: &[Value]) -> Result<(), Error> {
        values.iter().try_for_each(|value| self.spend(weight(value)? / ITEM))
    }

    /// Checks and charges a new value. Converts lazy iterables to lists, so that they are not recomputed on each use.
    fn made(&self, value: Value) -> Result<Value, Error> {
        let weight = weight(&value)?;
        let is_text = value.kind() == ValueKind::String;
        if !is_text && !is_container(&value) {
            return Ok(value);
        }
        self.spend(weight)?;
        match matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && !value.is_tuple() {
            true => Ok(Value::from(value.try_iter()?.collect::<Vec<Value>>())),
            false => Ok(value),
        }
    }
}

/// Returns an environment with only bounded filters, functions and tests.
pub(super) fn environment<'a>(budget: &Budget) -> Environment<'a> {
    let mut environment = Environment::empty();
    add_tests(&mut environment);
    for &(name, filter, guard) in MAKERS {
        let (filter, budget) = (filter(), budget.clone());
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let mut args = args.into_values();
            budget.read(&args)?;
            guard(&mut args)?;
            budget.made(filter.call(state, &args)?)
        });
    }
    for &(name, filter) in PICKERS {
        let (filter, budget) = (filter(), budget.clone());
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            budget.read(&args)?;
            filter.call(state, &args)
        });
    }
    let made = budget.clone();
    environment.add_filter(MADE, move |value: Value| made.made(value));
    let reader = budget.clone();
    environment.add_filter(READ, move |value: Value| reader.read(std::slice::from_ref(&value)).map(|()| value));
    let made = budget.clone();
    environment.add_filter(ADD, move |left: Value, right: Value| made.made(added(&left, &right)?));
    let made = budget.clone();
    environment.add_filter(CONCAT, move |left: Value, right: Value| made.made(concatenated(&left, &right)?));
    let made = budget.clone();
    environment.add_filter(REPEAT, move |left: Value, right: Value| made.made(multiplied(&left, &right)?));
    let made = budget.clone();
    environment.add_function("range", move |lower: isize, upper: Option<isize>, step: Option<isize>| {
        made.made(functions::range(lower, upper, step)?)
    });
    environment
}

fn add_tests(environment: &mut Environment<'_>) {
    macro_rules! add {
        ($($test:ident: $($name:literal)*;)*) => { $($(environment.add_test($name, tests::$test);)*)* };
    }
    add! {
        is_undefined: "undefined"; is_defined: "defined"; is_none: "none"; is_safe: "safe" "escaped";
        is_boolean: "boolean"; is_odd: "odd"; is_even: "even"; is_divisibleby: "divisibleby"; is_number: "number";
        is_integer: "integer" "int"; is_float: "float"; is_string: "string"; is_sequence: "sequence";
        is_iterable: "iterable"; is_mapping: "mapping"; is_startingwith: "startingwith"; is_endingwith: "endingwith";
        is_lower: "lower"; is_upper: "upper"; is_sameas: "sameas"; is_eq: "eq" "equalto" "=="; is_ne: "ne" "!=";
        is_lt: "lt" "lessthan" "<"; is_le: "le" "<="; is_gt: "gt" "greaterthan" ">"; is_ge: "ge" ">="; is_in: "in";
        is_true: "true"; is_false: "false"; is_filter: "filter"; is_test: "test";
    }
}

fn invalid(problem: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

pub(super) fn too_large() -> Error {
    let limit = MAX_RESULT >> 20;
    invalid(format!("a text or list in the template exceeds {limit} MiB (an item counts {ITEM} bytes); shorten it"))
}

fn check_size(bytes: usize) -> Result<(), Error> {
    (bytes <= MAX_RESULT).then_some(()).ok_or_else(too_large)
}

fn is_container(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
}

/// Returns the bytes of a value including nested values, or an error above the limit. A value that occurs twice counts
/// twice, so printing and comparing are bounded too.
fn weight(value: &Value) -> Result<usize, Error> {
    let mut sum = 0;
    weigh(value, 0, &mut sum)?;
    Ok(sum)
}

fn weigh(value: &Value, depth: usize, sum: &mut usize) -> Result<(), Error> {
    *sum += ITEM;
    match value.kind() {
        ValueKind::String => *sum += value.as_str().map_or(0, str::len),
        ValueKind::Bytes => *sum += value.len().unwrap_or(0),
        ValueKind::Number if value.as_i64().is_none() => *sum += LONG_NUMBER,
        ValueKind::Map => *sum += MAP,
        _ => {}
    }
    check_size(*sum)?;
    if !is_container(value) {
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Err(invalid(format!("lists in the template are nested more than {MAX_DEPTH} deep; flatten them")));
    }
    for item in value.try_iter()? {
        weigh(&item, depth + 1, sum)?;
        if value.kind() == ValueKind::Map {
            weigh(&value.get_item(&item)?, depth + 1, sum)?;
        }
    }
    Ok(())
}

/// A text that stops growing at the limit.
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_RESULT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Converts the value to a text within the limit.
pub(super) fn text_of(value: &Value) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str() {
        return check_size(text.len()).map(|()| Cow::Borrowed(text));
    }
    let mut text = Limited(String::new());
    write!(text, "{value}").map_err(|_| too_large())?;
    Ok(Cow::Owned(text.0))
}

fn concatenated(left: &Value, right: &Value) -> Result<Value, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let (left, right) = (text_of(left)?, text_of(right)?);
    check_size(left.len() + right.len())?;
    Ok(Value::from(left.into_owned() + &right))
}

fn multiplied(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_repeated = |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
    let (value, times) = match (is_repeated(left), is_repeated(right)) {
        (true, _) => (left, right),
        (false, true) => (right, left),
        (false, false) => {
            return calculated('*', left, right, i128::checked_mul, |left, right| left * right);
        }
    };
    let times = times.as_usize().ok_or_else(|| invalid("texts and lists can only be multiplied by integers"))?;
    check_size(weight(value)?.saturating_sub(ITEM).saturating_mul(times))?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.repeat(times)));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    // Repeating an empty list many times would only waste time.
    let times = if items.is_empty() { 0 } else { times };
    Ok(Value::from(std::iter::repeat_n(items, times).flatten().collect::<Vec<Value>>()))
}

fn added(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    if left.kind() == ValueKind::String && right.kind() == ValueKind::String {
        return concatenated(left, right);
    }
    if is_list(left) && is_list(right) {
        check_size(weight(left)?.saturating_add(weight(right)?))?;
        return Ok(Value::from(left.try_iter()?.chain(right.try_iter()?).collect::<Vec<Value>>()));
    }
    calculated('+', left, right, i128::checked_add, |left, right| left + right)
}

fn calculated(
    sign: char,
    left: &Value,
    right: &Value,
    integers: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let integer = |value: &Value| match value.is_integer() || value.kind() == ValueKind::Bool {
        true => i128::try_from(value.clone()).ok(),
        false => None,
    };
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        let result =
            integers(left, right).ok_or_else(|| invalid(format!("unable to calculate {left} {sign} {right}")))?;
        return Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from));
    }
    let number = |value: &Value| integer(value).map(|it| it as f64).or_else(|| f64::try_from(value.clone()).ok());
    match (number(left), number(right)) {
        (Some(left), Some(right)) => Ok(Value::from(floats(left, right))),
        _ => {
            let (left, right) = (left.kind(), right.kind());
            Err(invalid(format!("tried to use {sign} operator on unsupported types {left} and {right}")))
        }
    }
}

fn any(_: &mut [Value]) -> Result<(), Error> {
    Ok(())
}

/// Guard of filters on texts: first converts lists to text within the limit.
fn texts(args: &mut [Value]) -> Result<(), Error> {
    for value in args.iter_mut().filter(|value| is_container(value) && !value.is_kwargs()) {
        *value = Value::from(text_of(value)?.into_owned());
    }
    Ok(())
}

/// Guard of filters on lists: a text counts as a list of its characters.
fn items(args: &mut [Value]) -> Result<(), Error> {
    let length = args.first().and_then(Value::as_str).map_or(0, str::len);
    check_size(length.saturating_mul(ITEM))
}

/// Guard of grouping filters: the number or size of groups counts as items too.
fn grouped(args: &mut [Value]) -> Result<(), Error> {
    items(args)?;
    check_size(args.get(1).and_then(Value::as_usize).unwrap_or(0).saturating_mul(ITEM))
}

/// Guards `sort`: rejects several attributes, because the engine would store all their values for every item.
fn sorted(args: &mut [Value]) -> Result<(), Error> {
    items(args)?;
    let attribute = argument(args, usize::MAX, "attribute");
    match attribute.and_then(|it| it.as_str().map(|names| names.contains(','))) {
        Some(true) => Err(invalid("sort takes one attribute in workflows")),
        _ => Ok(()),
    }
}

fn joined(args: &mut [Value]) -> Result<(), Error> {
    items(args)?;
    if argument(args, 2, "attribute").is_some() {
        return Err(invalid("join takes no attribute in workflows; use map(attribute=…)|join"));
    }
    let joiner = argument(args, 1, "d").unwrap_or_else(|| Value::from(""));
    let joiner = text_of(&joiner)?.len();
    let Some(list) = args.first_mut().filter(|list| is_container(list)) else { return Ok(()) };
    let mut size = 0_usize;
    let mut items = Vec::new();
    for item in list.try_iter()? {
        let text = text_of(&item)?;
        size = size.saturating_add(text.len() + joiner);
        check_size(size)?;
        let is_printed = is_container(&item);
        items.push(if is_printed { Value::from(text.into_owned()) } else { item });
    }
    *list = Value::from(items);
    Ok(())
}

fn replaced(args: &mut [Value]) -> Result<(), Error> {
    texts(args)?;
    let [value, from, to] = &args[..] else { return Ok(()) };
    let (text, from_text, to_text) = (text_of(value)?, text_of(from)?, text_of(to)?);
    let found = text.matches(&*from_text).count();
    // If one of them is safe, the filter quotes the others.
    let factor = if [value, from, to].iter().any(|it| it.is_safe()) { QUOTED } else { 1 };
    let quoted = |bytes: usize| if factor == 1 { bytes } else { bytes * factor + 2 };
    check_size(quoted(text.len()).saturating_add(quoted(found).saturating_mul(quoted(to_text.len()))))
}

fn indented(args: &mut [Value]) -> Result<(), Error> {
    texts(args)?;
    let Some(text) = args.first().map(text_of).transpose()? else { return Ok(()) };
    let width = argument(args, 1, "width").and_then(|width| width.as_usize()).unwrap_or(4);
    let lines = text.matches('\n').count() + 1;
    check_size(text.len().saturating_add(lines.saturating_add(1).saturating_mul(width)))
}

fn parted(args: &mut [Value]) -> Result<(), Error> {
    let Some(text) = args.first().and_then(Value::as_str) else { return Ok(()) };
    let parts = match args.get(1).and_then(Value::as_str) {
        Some(separator) => text.split(separator).count(),
        // Split at lines or whitespace: at most one part more than whitespace characters.
        None => text.chars().filter(|c| c.is_whitespace()).count() + 1,
    };
    check_size(text.len().saturating_add(parts.saturating_mul(ITEM)))
}

/// Guard of `format`: every number counts as a width, every conversion as the longest argument.
fn formatted(args: &mut [Value]) -> Result<(), Error> {
    texts(args)?;
    let Some((format, values)) = args.split_first() else { return Ok(()) };
    let format = text_of(format)?;
    let widths = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widths = widths.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
    if format.contains('*') && values.iter().any(|value| value.is_number()) {
        return Err(invalid("a width of * is not available in workflows; write the width into the format"));
    }
    let mut longest = LONG_NUMBER;
    for value in values {
        longest = longest.max(weight(value)?.saturating_mul(QUOTED));
    }
    let conversions = format.matches('%').count();
    check_size(format.len().saturating_add(widths).saturating_add(conversions.saturating_mul(longest)))
}

/// Returns an argument by position or by name.
fn argument(args: &[Value], at: usize, name: &str) -> Option<Value> {
    let positional = args.get(at).filter(|value| !value.is_kwargs()).cloned();
    let named = || args.last().filter(|last| last.is_kwargs())?.get_attr(name).ok();
    positional.or_else(named).filter(|value| !value.is_undefined() && !value.is_none())
}
