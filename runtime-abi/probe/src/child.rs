//! The side that may die: one check, its diary and its verdict.

use crate::subject::{Diary, Port, Stop, Subject, Use, Verdict};
use std::{ffi::OsString, fs::File, path::PathBuf};

/// The whole life of a worker, with the arguments after its name. Gives the exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    let Some((rule, diary, subject)) = parse(arguments) else {
        eprintln!("a worker of the conformance checks, started by them alone");
        return 2;
    };
    let Ok(file) = File::create(diary) else { return 3 };
    let diary = Diary::new(file);
    let verdict = match (rule.run)(&subject, &diary) {
        Ok(()) => Verdict::Holds,
        Err(Stop::Broken(how)) => Verdict::Broken(how),
        Err(Stop::Skipped(why)) => Verdict::Skipped(why),
    };
    diary.verdict(&verdict);
    0
}

fn parse(arguments: Vec<OsString>) -> Option<(&'static crate::Rule, PathBuf, Subject)> {
    let mut rest = arguments.into_iter();
    let id = rest.next()?;
    let rule = crate::all_rules().find(|rule| id == rule.id)?;
    let (diary, library, folder) = (rest.next()?.into(), rest.next()?.into(), rest.next()?.into());
    let model = model(&mut rest)?;
    let failing = self::model(&mut rest)?;
    Some((rule, diary, Subject { library, model, failing, folder }))
}

fn model(rest: &mut impl Iterator<Item = OsString>) -> Option<Option<Use>> {
    let count: usize = rest.next()?.to_str()?.parse().ok()?;
    if count == 0 {
        return Some(None);
    }
    let (path, doubles) = (rest.next()?.into(), rest.next()? == "doubles");
    let port = |text: OsString| Port::parse(text.to_str()?).ok();
    let inputs: Option<Vec<Port>> = (2..count).map(|_| port(rest.next()?)).collect();
    Some(Some(Use { path, inputs: inputs?, doubles }))
}
