//! What the README and the pages of the book show is what happens: their commands are run, and the output is compared with
//! what is printed.
//!
//! Only `console` blocks are run, those of a page in one shell and one empty directory. What differs from run to run is brought to
//! one form on both sides first: run ids, times, speeds, the directory, and how far a killed load had come.

use std::{fs, path::Path, process::Command};

/// The file that the README assumes is there.
const ORDERS: &str = "orders.csv";
/// The directory that the README says it is in.
const DIRECTORY: &str = "/home/ada/shop";
/// Printed between the commands.
const MARKER: &str = "-- the next command --";
/// Kills the load as the README does, but once it has written rows, however long that takes here.
const KILLED: &str = "\
timeout() {
    shift 3
    \"$@\" &
    until tonnage runs shop.db 2>/dev/null | grep -q ' unfinished .*: [1-9]'; do
        kill -0 $! || break
        sleep 0.1
    done
    kill -KILL $!
    wait $!
}
";

/// A command and what it prints.
#[derive(Debug)]
struct Step {
    command: String,
    output: String,
}

/// Pages whose commands are run. The other pages of docs/ show commands on databases that are nobody's here.
const PAGES: [&str; 3] = ["README.md", "docs/tutorial-files.md", "docs/tutorial-rows.md"];

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The commands of all `console` blocks.
fn steps(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        match line.strip_prefix("```") {
            Some(language) => inside = !inside && language == "console",
            None if inside => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    output: String::new(),
                }),
                (None, Some(step)) => {
                    step.output.push_str(line);
                    step.output.push('\n');
                }
                (None, None) => panic!("output before the first command: {line}"),
            },
            None => {}
        }
    }
    steps
}

/// Runs the commands in one shell, so that `$?` means the command before.
fn run(steps: &[Step], directory: &Path) -> Vec<String> {
    let mut script = format!("exec 2>&1\n{KILLED}");
    for step in steps {
        script.push_str(&format!(
            "{}\nstatus=$?; echo '{MARKER}'; (exit $status)\n",
            step.command
        ));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_tonnage"));
    let programs = program.parent().expect("the binary lies in a directory");
    let path = std::env::var("PATH").expect("PATH is set");
    let ran = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", &script])
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("PATH", format!("{}:{path}", programs.display()))
        .output()
        .expect("bash starts");
    let text = String::from_utf8(ran.stdout).expect("the output is text");
    let mut outputs: Vec<_> = text
        .split(&format!("{MARKER}\n"))
        .map(|output| output.replace(&*directory.to_string_lossy(), DIRECTORY))
        .collect();
    assert_eq!(outputs.pop().as_deref(), Some(""), "every command has ended");
    outputs
}

/// One form for what may differ. `resumed` is for output that depends on how far the killed load had come.
fn normal(output: &str, resumed: bool) -> String {
    let mut lines = Vec::new();
    for line in output.lines() {
        // A shell that reads a script says more of a killed command than one that talks to a person.
        if line.split_whitespace().any(|word| word == "Killed") {
            lines.push("Killed".to_owned());
            continue;
        }
        // Progress is shown where a command takes its time, which it may on a busy machine.
        if line.contains(" rows  ") && line.contains(" rows/s") {
            continue;
        }
        // How often a buffer commits depends on how soon its rows follow one another.
        let line = match line.contains(" by the buffer, ") {
            true => line.replace(" 1 commit,", " N commits,"),
            false => line.to_owned(),
        };
        let words: Vec<_> = line.split(' ').collect();
        // A load that takes more than ten seconds says how far it has come: `10 s  65,514 rows`.
        if matches!(words.as_slice(), [_, "s", "", ..]) {
            continue;
        }
        let word = |at: usize, word: &str| -> String {
            let next = words.get(at + 1).copied().unwrap_or_default();
            let run_id = word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
            let number = word.starts_with(|c: char| c.is_ascii_digit());
            let seconds = number && matches!(next.trim_end_matches([',', ':']), "s");
            let drained = words[..at].ends_with(&["the", "buffer,"]);
            let counted = ["row", "rows", "written", "resumed", "commit,", "commits,"];
            let progress = resumed && number && counted.contains(&next);
            let bottleneck = words[..at].ends_with(&["bound", "by", "the"]);
            match () {
                () if run_id => "RUN".to_owned(),
                () if seconds || progress || drained || number && matches!(next, "rows/s" | "keys/s") => {
                    "N".to_owned()
                }
                // A kill may have left one.
                () if resumed && word == "row" => "rows".to_owned(),
                () if resumed && word == "commit," => "commits,".to_owned(),
                () if bottleneck => "BOTTLENECK".to_owned(),
                () => word.to_owned(),
            }
        };
        let line: Vec<_> = words.iter().enumerate().map(|(at, w)| word(at, w)).collect();
        lines.push(line.join(" "));
    }
    lines.join("\n")
}

/// `500,000 read = 497,588 written + 2,412 resumed` as its numbers.
fn equation(output: &str) -> Option<(u64, Vec<u64>)> {
    let line = output.lines().find(|line| line.contains(" read = "))?;
    let mut numbers = line
        .split_whitespace()
        .filter_map(|word| word.replace(',', "").parse::<u64>().ok());
    Some((numbers.next()?, numbers.collect()))
}

#[test]
fn the_pages_show_what_happens() {
    let killed = PAGES.iter().filter(|name| shows_what_happens(name)).count();
    assert!(killed > 0, "a page kills a load");
}

/// Whether the page kills a load.
fn shows_what_happens(name: &str) -> bool {
    let steps = steps(&page(name));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path().canonicalize().expect("it is there");
    let orders = steps.iter().find(|step| step.command == format!("cat {ORDERS}"));
    if let Some(orders) = orders {
        fs::write(directory.join(ORDERS), &orders.output).expect("the file can be written");
    }

    let outputs = run(&steps, &directory);
    assert_eq!(outputs.len(), steps.len());
    let mut killed = false;
    for (step, output) in steps.iter().zip(&outputs) {
        killed |= step.command.contains("KILL");
        let command = &step.command;
        // The list of runs at the end shows whole counts again.
        let resumed = killed && !command.starts_with("tonnage runs");
        assert_eq!(
            normal(output, resumed),
            normal(&step.output, resumed),
            "{name}: $ {command}"
        );
        for shown in [output, &step.output] {
            let Some((read, parts)) = equation(shown) else {
                continue;
            };
            assert_eq!(parts.iter().sum::<u64>(), read, "the account balances: {shown}");
            assert!(parts.iter().all(|part| *part > 0), "$ {command}: {shown}");
        }
    }
    killed
}

#[test]
fn the_readme_installs_what_there_is() {
    let markdown = page("README.md");
    let package = "crates/tonnage-cli";
    assert!(markdown.contains(&format!("cargo install --locked --path {package}\n")));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(root.join(package).join("Cargo.toml").is_file());
    for name in [
        "README.md",
        "docs/SUMMARY.md",
        "docs/promises.md",
        "docs/databases.md",
        "docs/library.md",
    ]
    .iter()
    .chain(&PAGES[1..])
    {
        let at = root.join(name);
        let directory = at.parent().expect("a page is in a directory");
        let markdown = page(name);
        let links = markdown
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for linked in links.filter_map(|link| link.split('#').next()) {
            assert!(directory.join(linked).is_file(), "{name}: {linked} is there");
        }
    }
}
