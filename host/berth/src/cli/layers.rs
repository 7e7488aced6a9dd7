//! Three places for one setting: the flag, its `BERTH_…` variable, its key in the settings file, in this order.

use anyhow::{Context, bail};
use clap::{ArgMatches, Command, CommandFactory};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The variable that names the settings file.
const FILE_VARIABLE: &str = "BERTH_CONFIG";

/// Why the command line was not accepted.
pub enum Refused {
    /// Usage, help or version: clap knows how to say it.
    Usage(clap::Error),
    /// The settings file is unreadable or has a key that means nothing.
    File(anyhow::Error),
}

/// Parses the arguments of `P` with all three layers.
pub fn matches<P: CommandFactory>(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, Refused> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = with_variables(P::command());
    if let Some(path) = settings_file(&arguments) {
        let table = read(&path).map_err(Refused::File)?;
        command = with_file(command, &table, &path, "").map_err(Refused::File)?;
    }
    command
        .try_get_matches_from(arguments)
        .map_err(Refused::Usage)
}

/// Gives every flag the variable of its name.
fn with_variables(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_long() {
        Some(long) if !["help", "version"].contains(&long) => {
            let name = format!("BERTH_{}", long.replace('-', "_").to_uppercase());
            argument.env(leak(name)).hide_env_values(true)
        }
        _ => argument,
    });
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, with_variables)
    })
}

/// Makes the keys of the file the defaults of their flags.
fn with_file(
    mut command: Command,
    table: &Table,
    file: &Path,
    above: &str,
) -> anyhow::Result<Command> {
    for (key, value) in table {
        let place = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        if let (true, Value::Table(inner)) = (command.find_subcommand(key).is_some(), value) {
            let too = reads_too(key).filter(|name| command.find_subcommand(name).is_some());
            for name in std::iter::once(key.as_str()).chain(too) {
                let mut failed = None;
                command = command.mut_subcommand(name, |sub| {
                    with_file(sub.clone(), inner, file, &place).unwrap_or_else(|error| {
                        failed = Some(error);
                        sub
                    })
                });
                if let Some(error) = failed {
                    return Err(error);
                }
            }
        } else if let Some(id) = flag(&command, key) {
            let values = texts(value).with_context(|| {
                format!(
                    "`{place}` in {} must be a text, a number, a truth value or a list of them",
                    file.display()
                )
            })?;
            command = command.mut_arg(id, |argument| {
                argument
                    .default_values(values.into_iter().map(leak).collect::<Vec<&str>>())
                    .required(false)
            });
        } else {
            bail!(
                "`{place}` in {} is no setting; the keys of a table are the flags of that sub-command, without the dashes",
                file.display()
            );
        }
    }
    Ok(command)
}

/// The sub-command that judges another one's settings reads them where that one does.
fn reads_too(table: &str) -> Option<&'static str> {
    (table == "serve").then_some("check-config")
}

fn flag(command: &Command, name: &str) -> Option<clap::Id> {
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(name))
        .map(|argument| argument.get_id().clone())
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Integer(number) => Some(vec![number.to_string()]),
        Value::Boolean(truth) => Some(vec![truth.to_string()]),
        Value::Array(values) => values
            .iter()
            .map(texts)
            .collect::<Option<Vec<_>>>()
            .map(|lists| lists.concat()),
        _ => None,
    }
}

fn settings_file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--config="))
        {
            return Some(PathBuf::from(path));
        }
    }
    std::env::var_os(FILE_VARIABLE).map(PathBuf::from)
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the settings file {}", path.display()))?;
    text.parse()
        .with_context(|| format!("the settings file {} is no TOML", path.display()))
}

/// clap wants names that live as long as the program; there are as many as flags, once.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{FromArgMatches, Parser};
    use std::io::Write;

    #[derive(Debug, Parser)]
    struct Sample {
        #[arg(long, global = true)]
        config: Option<PathBuf>,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        Serve {
            #[arg(long)]
            sample_listen: Option<String>,
            #[arg(long)]
            sample_open: bool,
            #[arg(long)]
            sample_many: Vec<String>,
        },
    }

    fn parse(file: &str, words: &[&str]) -> Result<Sample, Refused> {
        let mut settings = tempfile::NamedTempFile::new().unwrap();
        settings.write_all(file.as_bytes()).unwrap();
        let mut all = vec![
            "berth".to_owned(),
            "--config".into(),
            settings.path().display().to_string(),
        ];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let matches = matches::<Sample>(all.into_iter().map(OsString::from))?;
        Ok(Sample::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn the_file_is_the_lowest_layer() {
        let file =
            "[serve]\nsample-listen = \"file\"\nsample-open = true\nsample-many = [\"a\", 2]";
        let Ok(Sample {
            command:
                Sub::Serve {
                    sample_listen,
                    sample_open,
                    sample_many,
                },
            ..
        }) = parse(file, &["serve"])
        else {
            panic!()
        };
        assert_eq!(
            (sample_listen.as_deref(), sample_open, sample_many),
            (Some("file"), true, vec!["a".to_owned(), "2".into()])
        );
        let Ok(Sample {
            command: Sub::Serve { sample_listen, .. },
            ..
        }) = parse(file, &["serve", "--sample-listen", "flag"])
        else {
            panic!()
        };
        assert_eq!(sample_listen.as_deref(), Some("flag"));
    }

    #[test]
    fn a_key_that_means_nothing_is_refused_with_its_place() {
        let Err(Refused::File(error)) = parse("[serve]\nsample-lisen = 1", &["serve"]) else {
            panic!()
        };
        assert!(
            error.to_string().starts_with("`serve.sample-lisen` in "),
            "{error}"
        );
    }

    #[test]
    fn every_flag_has_its_variable() {
        fn check(command: &Command) {
            for argument in command.get_arguments().filter(|argument| {
                argument
                    .get_long()
                    .is_some_and(|long| !["help", "version"].contains(&long))
            }) {
                let variable = argument
                    .get_env()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                assert!(
                    variable.starts_with("BERTH_"),
                    "{} of {} has no variable",
                    argument.get_id(),
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&with_variables(super::super::Arguments::command()));
    }

    #[test]
    fn the_command_line_is_consistent() {
        with_variables(super::super::Arguments::command()).debug_assert();
    }
}
