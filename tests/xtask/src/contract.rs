//! Writes the contract's Rust types from `plugin-api/contract/wit`: one file for each interface that
//! owns types, documentation carried over, so that WIT stays the only place where a field is declared.
//!
//! The mapping is the contract's native one: a record is a map with the WIT names, a variant is
//! `{"case": value}` or `"case"`, `list<u8>` is a byte string. With the feature `component` the same types are
//! lifted from and lowered into components; on wasm32 the guest's bindings use them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use heck::{ToSnakeCase, ToUpperCamelCase};
use wit_parser::{
    Enum, Interface, InterfaceId, Record, Resolve, Type, TypeDefKind, TypeOwner, Variant,
};

const WIT: &str = "plugin-api/contract/wit";
const GENERATED: &str = "plugin-api/contract/src/generated";

/// Regenerates the checked-in types below `root`, or with `check` only compares them.
///
/// # Errors
/// The WIT does not resolve, a type has no mapping, rustfmt is missing, or, with `check`, a file is stale.
pub fn run(root: &Path, check: bool) -> Result<()> {
    let folder = root.join(GENERATED);
    let wanted = generate(&root.join(WIT))?;
    if check {
        let present = read_folder(&folder)?;
        let stale: Vec<&str> = wanted
            .keys()
            .chain(present.keys())
            .filter(|name| wanted.get(*name) != present.get(*name))
            .map(String::as_str)
            .collect();
        ensure!(
            stale.is_empty(),
            "stale: {}; run `cargo xtask contract`",
            stale.join(", ")
        );
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    for name in read_folder(&folder)?.keys() {
        if !wanted.contains_key(name) {
            std::fs::remove_file(folder.join(name))?;
        }
    }
    for (name, text) in &wanted {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path: PathBuf = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.insert(name.into_owned(), std::fs::read_to_string(&path)?);
    }
    Ok(files)
}

/// File name to formatted text.
fn generate(wit: &Path) -> Result<BTreeMap<String, String>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let mut files = BTreeMap::new();
    let mut modules =
        String::from("//! Written by `cargo xtask contract`; edit the WIT instead.\n\n");
    for (name, id) in &resolve.packages[package].interfaces {
        if let Some(text) = interface(&resolve, *id)? {
            let module = name.to_snake_case();
            writeln!(modules, "pub mod {module};")?;
            files.insert(format!("{module}.rs"), format(&text)?);
        }
    }
    files.insert("mod.rs".into(), format(&modules)?);
    Ok(files)
}

/// The types of one interface, or none if it only has functions and borrowed types.
fn interface(resolve: &Resolve, id: InterfaceId) -> Result<Option<String>> {
    let interface: &Interface = &resolve.interfaces[id];
    let mut imports = BTreeMap::<String, Vec<String>>::new();
    let mut types = String::new();
    for (name, type_id) in &interface.types {
        let definition = &resolve.types[*type_id];
        let type_name = name.to_upper_camel_case();
        match &definition.kind {
            TypeDefKind::Type(Type::Id(target)) => {
                let TypeOwner::Interface(owner) = resolve.types[*target].owner else {
                    bail!("{name}: used from no interface");
                };
                let owner = resolve.interfaces[owner]
                    .name
                    .as_deref()
                    .unwrap_or_default();
                imports
                    .entry(owner.to_snake_case())
                    .or_default()
                    .push(type_name);
                continue;
            }
            TypeDefKind::Resource => continue,
            _ => {}
        }
        docs(&mut types, "///", definition.docs.contents.as_deref());
        match &definition.kind {
            TypeDefKind::Record(x) => record(resolve, &mut types, &type_name, x)?,
            TypeDefKind::Variant(x) => variant(resolve, &mut types, &type_name, x)?,
            TypeDefKind::Enum(x) => enumeration(&mut types, &type_name, x)?,
            other => bail!("{name}: no mapping for {}", other.as_str()),
        }
    }
    if types.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    docs(&mut text, "//!", interface.docs.contents.as_deref());
    text.push_str("//!\n//! Written by `cargo xtask contract`; edit the WIT instead.\n\n");
    text.push_str("use serde::{Deserialize, Serialize};\n");
    text.push_str("#[cfg(feature = \"component\")]\n");
    text.push_str("use wasmtime::component::{ComponentType, Lift, Lower};\n\n");
    for (module, names) in imports {
        // A module that only functions of the interface use is not imported.
        let used: Vec<String> = names.into_iter().filter(|n| mentions(&types, n)).collect();
        if !used.is_empty() {
            writeln!(text, "use super::{module}::{{{}}};", used.join(", "))?;
        }
    }
    text.push('\n');
    text.push_str(&types);
    Ok(Some(text))
}

fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|word| word == name)
}

const DERIVE: &str = "Debug, Clone, PartialEq, Eq, Serialize, Deserialize";
const RENAME: &str = "#[serde(rename_all = \"kebab-case\")]";

/// Attributes of a type of this shape (`record`, `variant`, `enum`).
fn attributes(derive: &str, shape: &str) -> String {
    format!(
        "#[derive({derive})]\n{RENAME}\n#[cfg_attr(feature = \"component\", derive(ComponentType, Lift, Lower), component({shape}))]\n"
    )
}

/// Its name in WIT, where Rust spells it differently.
fn named(out: &mut String, wit: &str, rust: &str) {
    if wit != rust {
        out.push_str(&format!(
            "#[cfg_attr(feature = \"component\", component(name = \"{wit}\"))]\n"
        ));
    }
}

fn record(resolve: &Resolve, out: &mut String, name: &str, record: &Record) -> Result<()> {
    writeln!(out, "{}pub struct {name} {{", attributes(DERIVE, "record"))?;
    for field in &record.fields {
        docs(out, "///", field.docs.contents.as_deref());
        if is_bytes(resolve, &field.ty) {
            out.push_str("#[serde(with = \"serde_bytes\")]\n");
        }
        let rust = field.name.to_snake_case();
        named(out, &field.name, &rust);
        writeln!(out, "pub {rust}: {},", rust_type(resolve, &field.ty)?)?;
    }
    out.push_str("}\n\n");
    Ok(())
}

fn variant(resolve: &Resolve, out: &mut String, name: &str, variant: &Variant) -> Result<()> {
    writeln!(out, "{}pub enum {name} {{", attributes(DERIVE, "variant"))?;
    for case in &variant.cases {
        docs(out, "///", case.docs.contents.as_deref());
        let case_name = case.name.to_upper_camel_case();
        named(out, &case.name, &case_name);
        match &case.ty {
            None => writeln!(out, "{case_name},")?,
            Some(ty) => {
                let with = if is_bytes(resolve, ty) {
                    "#[serde(with = \"serde_bytes\")] "
                } else {
                    ""
                };
                writeln!(out, "{case_name}({with}{}),", rust_type(resolve, ty)?)?;
            }
        }
    }
    out.push_str("}\n\n");
    Ok(())
}

fn enumeration(out: &mut String, name: &str, enumeration: &Enum) -> Result<()> {
    let attributes = attributes(&format!("{DERIVE}, Copy, Hash"), "enum");
    writeln!(out, "{attributes}#[repr(u8)]\npub enum {name} {{")?;
    for case in &enumeration.cases {
        docs(out, "///", case.docs.contents.as_deref());
        let rust = case.name.to_upper_camel_case();
        named(out, &case.name, &rust);
        writeln!(out, "{rust},")?;
    }
    out.push_str("}\n\n");
    lift(out, name, enumeration)
}

/// What the guest's bindings call to read an enum that they did not write themselves.
fn lift(out: &mut String, name: &str, enumeration: &Enum) -> Result<()> {
    writeln!(
        out,
        "#[cfg(target_arch = \"wasm32\")]\nimpl {name} {{\n/// From its number on the component boundary.\n///\n\
         /// # Safety\n/// None; the bindings expect the keyword.\n#[doc(hidden)]\n\
         pub unsafe fn _lift(number: u8) -> Self {{\nmatch number {{"
    )?;
    let last = enumeration.cases.len().saturating_sub(1);
    for (number, case) in enumeration.cases.iter().enumerate() {
        let rust = case.name.to_upper_camel_case();
        if number == last {
            writeln!(out, "_ => Self::{rust},")?;
        } else {
            writeln!(out, "{number} => Self::{rust},")?;
        }
    }
    out.push_str("}\n}\n}\n\n");
    Ok(())
}

fn docs(out: &mut String, marker: &str, text: Option<&str>) {
    for line in text.unwrap_or_default().trim_end().lines() {
        out.push_str(marker);
        out.push(' ');
        out.push_str(line);
        out.push('\n');
    }
}

fn is_bytes(resolve: &Resolve, ty: &Type) -> bool {
    matches!(ty, Type::Id(id) if matches!(resolve.types[*id].kind, TypeDefKind::List(Type::U8)))
}

fn rust_type(resolve: &Resolve, ty: &Type) -> Result<String> {
    Ok(match ty {
        Type::Bool => "bool".into(),
        Type::U8 => "u8".into(),
        Type::U16 => "u16".into(),
        Type::U32 => "u32".into(),
        Type::U64 => "u64".into(),
        Type::S32 => "i32".into(),
        Type::S64 => "i64".into(),
        Type::String => "String".into(),
        Type::Id(id) => {
            let definition = &resolve.types[*id];
            match (&definition.name, &definition.kind) {
                (Some(name), _) => name.to_upper_camel_case(),
                (None, TypeDefKind::List(item)) => format!("Vec<{}>", rust_type(resolve, item)?),
                (None, TypeDefKind::Option(item)) => {
                    format!("Option<{}>", rust_type(resolve, item)?)
                }
                (None, TypeDefKind::Result(result)) => {
                    let side = |ty: &Option<Type>| {
                        ty.as_ref()
                            .map_or(Ok("()".into()), |ty| rust_type(resolve, ty))
                    };
                    format!("Result<{}, {}>", side(&result.ok)?, side(&result.err)?)
                }
                (None, other) => bail!("no mapping for {}", other.as_str()),
            }
        }
        other => bail!("no mapping for {other:?}"),
    })
}

/// Generated files are formatted like all others, so that `cargo fmt` leaves them alone.
fn format(text: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("rustfmt")?;
    let mut input = child.stdin.take().context("rustfmt has no input")?;
    let owned = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(owned.as_bytes()));
    let output = child.wait_with_output()?;
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("rustfmt writer failed"))??;
    ensure!(
        output.status.success(),
        "rustfmt refused the generated code"
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_types_are_what_the_wit_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        run(&root, true).unwrap();
    }
}
