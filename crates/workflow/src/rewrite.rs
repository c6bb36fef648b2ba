//! Rebuilds a template so that every operation that can create a large value passes a filter that checks its size.
//!
//! The engine has no hook for its operators, its captures, or the constants that it computes while it compiles.
//! The rebuilt tree replaces them with filters of `bounded.rs`, so the limits need no second thread or allocator.

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, Call, CallArg, Compare, CompareOp, Const, Do, EmitExpr, Expr, Filter, FilterBlock, ForLoop,
    GetAttr, GetItem, IfCond, IfExpr, List, Map, Set, SetBlock, Slice, Spanned, Stmt, Template, Test, Tuple, UnaryOp,
    UnaryOpKind, WithBlock,
};

use crate::bounded::{self, ADD, CONCAT, MADE, READ, REPEAT};

/// The line, from 0, and the problem in it.
pub(super) type Refused = (usize, String);

pub(super) fn statement<'a>(from: &Stmt<'a>) -> Result<Stmt<'a>, Refused> {
    Ok(match from {
        Stmt::Template(it) => Stmt::Template(Spanned::new(Template { children: body(&it.children)? }, it.span())),
        Stmt::EmitExpr(it) => Stmt::EmitExpr(Spanned::new(EmitExpr { expr: expression(&it.expr)? }, it.span())),
        // As a value, the text passes the formatter, which counts it even inside a capture.
        Stmt::EmitRaw(it) => {
            let value = Value::from_safe_string(it.raw.to_owned());
            let expr = Expr::Const(Spanned::new(Const { value }, it.span()));
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr }, it.span()))
        }
        Stmt::ForLoop(it) => Stmt::ForLoop(for_loop(it)?),
        Stmt::IfCond(it) => Stmt::IfCond(if_cond(it)?),
        Stmt::WithBlock(it) => Stmt::WithBlock(with_block(it)?),
        Stmt::Set(it) => {
            let set = Set { target: target(&it.target)?, expr: expression(&it.expr)? };
            Stmt::Set(Spanned::new(set, it.span()))
        }
        Stmt::SetBlock(it) => {
            let set = SetBlock { target: target(&it.target)?, filter: Some(capture(it)?), body: body(&it.body)? };
            Stmt::SetBlock(Spanned::new(set, it.span()))
        }
        Stmt::AutoEscape(it) => return refused(it.span(), "autoescape is not available in workflows"),
        Stmt::FilterBlock(it) => {
            let block = FilterBlock { filter: expression(&it.filter)?, body: body(&it.body)? };
            Stmt::FilterBlock(Spanned::new(block, it.span()))
        }
        Stmt::Do(it) => Stmt::Do(Spanned::new(Do { call: call(&it.call)? }, it.span())),
    })
}

pub(super) fn expression<'a>(from: &Expr<'a>) -> Result<Expr<'a>, Refused> {
    match from {
        Expr::Var(_) | Expr::Const(_) => Ok(leaf(from)),
        Expr::Slice(it) => slice(it),
        Expr::UnaryOp(it) => unary(it),
        Expr::BinOp(it) => binary(it),
        Expr::Compare(it) => compare(it),
        Expr::IfExpr(it) => if_expr(it),
        Expr::Filter(it) => filter(it),
        Expr::Test(it) => test(it),
        Expr::GetAttr(it) => get_attr(it),
        Expr::GetItem(it) => get_item(it),
        Expr::Call(it) => call(it).map(Expr::Call),
        Expr::List(it) => list(it),
        Expr::Tuple(it) => tuple(it),
        Expr::Map(it) => map(it),
    }
}

fn refused<T>(span: Span, problem: &str) -> Result<T, Refused> {
    Err((usize::from(span.start_line).saturating_sub(1), problem.to_owned()))
}

fn body<'a>(from: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Refused> {
    from.iter().map(statement).collect()
}

fn expressions<'a>(from: &[Expr<'a>]) -> Result<Vec<Expr<'a>>, Refused> {
    from.iter().map(expression).collect()
}

fn optional<'a>(from: Option<&Expr<'a>>) -> Result<Option<Expr<'a>>, Refused> {
    from.map(expression).transpose()
}

/// `VALUE|NAME(ARGUMENTS)`.
fn filtered<'a>(name: &'static str, value: Expr<'a>, argument: Option<Expr<'a>>, span: Span) -> Expr<'a> {
    let args = argument.into_iter().map(CallArg::Pos).collect();
    Expr::Filter(Spanned::new(Filter { name, expr: Some(value), args }, span))
}

fn for_loop<'a>(it: &Spanned<ForLoop<'a>>) -> Result<Spanned<ForLoop<'a>>, Refused> {
    if it.recursive {
        return refused(it.span(), "recursive loops are not available in workflows");
    }
    let rebuilt = ForLoop {
        target: target(&it.target)?,
        iter: expression(&it.iter)?,
        filter_expr: optional(it.filter_expr.as_ref())?,
        recursive: false,
        body: body(&it.body)?,
        else_body: body(&it.else_body)?,
    };
    Ok(Spanned::new(rebuilt, it.span()))
}

fn if_cond<'a>(it: &Spanned<IfCond<'a>>) -> Result<Spanned<IfCond<'a>>, Refused> {
    let rebuilt =
        IfCond { expr: expression(&it.expr)?, true_body: body(&it.true_body)?, false_body: body(&it.false_body)? };
    Ok(Spanned::new(rebuilt, it.span()))
}

fn with_block<'a>(it: &Spanned<WithBlock<'a>>) -> Result<Spanned<WithBlock<'a>>, Refused> {
    let assignments = it.assignments.iter().map(|(name, value)| Ok((target(name)?, expression(value)?)));
    let rebuilt = WithBlock { assignments: assignments.collect::<Result<_, Refused>>()?, body: body(&it.body)? };
    Ok(Spanned::new(rebuilt, it.span()))
}

/// Returns the filter of a capture, or the size check if it has none.
fn capture<'a>(it: &Spanned<SetBlock<'a>>) -> Result<Expr<'a>, Refused> {
    let made = || Expr::Filter(Spanned::new(Filter { name: MADE, expr: None, args: Vec::new() }, it.span()));
    Ok(optional(it.filter.as_ref())?.unwrap_or_else(made))
}

/// Copies the target of an assignment: names, which create no value.
fn target<'a>(from: &Expr<'a>) -> Result<Expr<'a>, Refused> {
    let targets = |items: &[Expr<'a>]| items.iter().map(target).collect::<Result<Vec<_>, Refused>>();
    match from {
        Expr::Var(_) => Ok(leaf(from)),
        Expr::List(it) => Ok(Expr::List(Spanned::new(List { items: targets(&it.items)? }, it.span()))),
        Expr::Tuple(it) => Ok(Expr::Tuple(Spanned::new(Tuple { items: targets(&it.items)? }, it.span()))),
        // Only a namespace has attributes to set. It could contain itself, which the engine cannot print.
        other => refused(other.span(), "only names can be set; namespaces are not available in workflows"),
    }
}

fn leaf<'a>(from: &Expr<'a>) -> Expr<'a> {
    match from {
        Expr::Var(it) => Expr::Var(Spanned::new(minijinja::machinery::ast::Var { id: it.id }, it.span())),
        Expr::Const(it) => Expr::Const(Spanned::new(Const { value: it.value.clone() }, it.span())),
        _ => unreachable!("a leaf is a name or a constant"),
    }
}

fn slice<'a>(it: &Spanned<Slice<'a>>) -> Result<Expr<'a>, Refused> {
    let sliced = expression(&it.expr)?;
    let rebuilt = Slice {
        // With a step, the engine needs four bytes for each character of a text.
        expr: if it.step.is_some() { filtered(READ, sliced, None, it.span()) } else { sliced },
        start: optional(it.start.as_ref())?,
        stop: optional(it.stop.as_ref())?,
        step: optional(it.step.as_ref())?,
    };
    Ok(filtered(MADE, Expr::Slice(Spanned::new(rebuilt, it.span())), None, it.span()))
}

fn unary<'a>(it: &Spanned<UnaryOp<'a>>) -> Result<Expr<'a>, Refused> {
    // `UnaryOpKind` is not `Copy`.
    let op = if matches!(it.op, UnaryOpKind::Not) { UnaryOpKind::Not } else { UnaryOpKind::Neg };
    Ok(Expr::UnaryOp(Spanned::new(UnaryOp { op, expr: expression(&it.expr)? }, it.span())))
}

fn binary<'a>(it: &Spanned<BinOp<'a>>) -> Result<Expr<'a>, Refused> {
    let (left, right) = (expression(&it.left)?, expression(&it.right)?);
    let is_number = |side: &Expr<'_>| matches!(side, Expr::Const(it) if it.value.is_number());
    // With a number on one side, a sum is a number or an error and needs no size check.
    let is_sum = is_number(&left) || is_number(&right);
    Ok(match it.op {
        BinOpKind::Concat => filtered(CONCAT, left, Some(right), it.span()),
        BinOpKind::Mul => filtered(REPEAT, left, Some(right), it.span()),
        BinOpKind::Add if !is_sum => filtered(ADD, left, Some(right), it.span()),
        _ => Expr::BinOp(Spanned::new(BinOp { op: it.op, left, right }, it.span())),
    })
}

fn compare<'a>(it: &Spanned<Compare<'a>>) -> Result<Expr<'a>, Refused> {
    let ops = it.ops.iter().map(|step| Ok(CompareOp { op: step.op, expr: expression(&step.expr)? }));
    let rebuilt = Compare { expr: expression(&it.expr)?, ops: ops.collect::<Result<_, Refused>>()? };
    Ok(Expr::Compare(Spanned::new(rebuilt, it.span())))
}

fn if_expr<'a>(it: &Spanned<IfExpr<'a>>) -> Result<Expr<'a>, Refused> {
    let rebuilt = IfExpr {
        test_expr: expression(&it.test_expr)?,
        true_expr: expression(&it.true_expr)?,
        false_expr: optional(it.false_expr.as_ref())?,
    };
    Ok(Expr::IfExpr(Spanned::new(rebuilt, it.span())))
}

fn filter<'a>(it: &Spanned<Filter<'a>>) -> Result<Expr<'a>, Refused> {
    if !bounded::is_filter(it.name) {
        return refused(it.span(), &format!("unknown filter {:?}", it.name));
    }
    let rebuilt = Filter { name: it.name, expr: optional(it.expr.as_ref())?, args: arguments(&it.args, it.span())? };
    Ok(Expr::Filter(Spanned::new(rebuilt, it.span())))
}

fn test<'a>(it: &Spanned<Test<'a>>) -> Result<Expr<'a>, Refused> {
    let rebuilt = Test { name: it.name, expr: expression(&it.expr)?, args: arguments(&it.args, it.span())? };
    Ok(Expr::Test(Spanned::new(rebuilt, it.span())))
}

fn get_attr<'a>(it: &Spanned<GetAttr<'a>>) -> Result<Expr<'a>, Refused> {
    Ok(Expr::GetAttr(Spanned::new(GetAttr { expr: expression(&it.expr)?, name: it.name }, it.span())))
}

fn get_item<'a>(it: &Spanned<GetItem<'a>>) -> Result<Expr<'a>, Refused> {
    let rebuilt = GetItem { expr: expression(&it.expr)?, subscript_expr: expression(&it.subscript_expr)? };
    Ok(Expr::GetItem(Spanned::new(rebuilt, it.span())))
}

fn call<'a>(it: &Spanned<Call<'a>>) -> Result<Spanned<Call<'a>>, Refused> {
    let rebuilt = Call { expr: expression(&it.expr)?, args: arguments(&it.args, it.span())? };
    Ok(Spanned::new(rebuilt, it.span()))
}

fn arguments<'a>(from: &[CallArg<'a>], span: Span) -> Result<Vec<CallArg<'a>>, Refused> {
    let rebuilt = from.iter().map(|argument| match argument {
        CallArg::Pos(value) => Ok(CallArg::Pos(expression(value)?)),
        CallArg::Kwarg(name, value) => Ok(CallArg::Kwarg(name, expression(value)?)),
        // They would put whole lists on the engine's stack without a check.
        CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
            refused(span, "arguments with * or ** are not available in workflows")
        }
    });
    rebuilt.collect()
}

fn list<'a>(it: &Spanned<List<'a>>) -> Result<Expr<'a>, Refused> {
    let rebuilt = Expr::List(Spanned::new(List { items: expressions(&it.items)? }, it.span()));
    Ok(filtered(MADE, rebuilt, None, it.span()))
}

fn tuple<'a>(it: &Spanned<Tuple<'a>>) -> Result<Expr<'a>, Refused> {
    let rebuilt = Expr::Tuple(Spanned::new(Tuple { items: expressions(&it.items)? }, it.span()));
    Ok(filtered(MADE, rebuilt, None, it.span()))
}

fn map<'a>(it: &Spanned<Map<'a>>) -> Result<Expr<'a>, Refused> {
    let map = Map { keys: expressions(&it.keys)?, values: expressions(&it.values)? };
    Ok(filtered(MADE, Expr::Map(Spanned::new(map, it.span())), None, it.span()))
}
