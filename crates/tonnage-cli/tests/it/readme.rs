//! What the README and the pages of the book show is what happens: their commands are run, and the output is compared with
//! what is printed.
//!
//! Only `console` blocks are run, those of a page in one shell and one empty directory. What differs from run to run is brought to
//! one form on both sides first: run ids, times, speeds, the directory, and how far a killed load had come.
//!
//! `TONNAGE_TEST_BINARY` is another program to run, such as a release build. With `TONNAGE_SAMPLES=write` the pages get what
//! is printed (`make samples`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The README and the pages of the book, those in directories too.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for directory in ["docs", "docs/reference", "docs/experiments"] {
        for entry in fs::read_dir(root().join(directory)).expect("the directory is there") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".md") {
                pages.push(format!("{directory}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// The program whose output pages show.
fn program() -> PathBuf {
    std::env::var_os("TONNAGE_TEST_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_tonnage").into(), PathBuf::from)
}

/// Whether pages get what is printed.
fn writes() -> bool {
    std::env::var("TONNAGE_SAMPLES").is_ok_and(|samples| samples == "write")
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
    // What a page shows was killed after the time that it says.
    let killed = if writes() { "" } else { KILLED };
    let mut script = format!("exec 2>&1\n{killed}");
    for step in steps {
        script.push_str(&format!(
            "{}\nstatus=$?; echo '{MARKER}'; (exit $status)\n",
            step.command
        ));
    }
    let program = program().canonicalize().expect("the program is there");
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
                () if is_instant(word) => "TIME".to_owned(),
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

/// A page with what was printed in place of what it shows.
fn rewritten(markdown: &str, outputs: &[String]) -> String {
    let mut text = String::new();
    let mut outputs = outputs.iter();
    let (mut inside, mut skipped) = (false, false);
    for line in markdown.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside && language == "console";
            skipped = false;
        }
        let command = inside && line.starts_with("$ ");
        if command || !skipped {
            text.push_str(line);
            text.push('\n');
        }
        if command {
            skipped = true;
            let output = outputs.next().expect("an output for every command");
            for line in output.lines() {
                let killed = line.split_whitespace().any(|word| word == "Killed");
                let progress = line.contains(" rows  ") && line.contains(" rows/s");
                if !progress {
                    text.push_str(if killed { "Killed" } else { line });
                    text.push('\n');
                }
            }
        }
    }
    text
}

#[test]
fn the_pages_show_what_happens() {
    let pages: Vec<_> = pages()
        .into_iter()
        .filter(|name| !steps(&page(name)).is_empty())
        .collect();
    assert!(pages.len() > 2, "{pages:?}");
    let killed = pages.iter().filter(|name| shows_what_happens(name)).count();
    assert!(killed > 0, "a page kills a load");
}

#[test]
fn what_is_printed_takes_the_place_of_what_is_shown() {
    let page = "a\n```console\n$ one\nold\nold\n$ two\n```\nb\n```sh\n$ three\nkept\n```\n";
    let outputs = ["new\n".to_owned(), "bash: line 7: 12 Killed  two\n".to_owned()];
    assert_eq!(
        rewritten(page, &outputs),
        "a\n```console\n$ one\nnew\n$ two\nKilled\n```\nb\n```sh\n$ three\nkept\n```\n"
    );
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
    if writes() {
        let text = rewritten(&page(name), &outputs);
        fs::write(root().join(name), text).expect("the page can be written");
        return steps.iter().any(|step| step.command.contains("KILL"));
    }
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
    let package = "crates/tonnage-cli";
    for name in ["README.md", "docs/install.md"] {
        assert!(
            page(name).contains(&format!("cargo install --locked --path {package}\n")),
            "{name}"
        );
    }
    assert!(root().join(package).join("Cargo.toml").is_file());
}

/// What links to a heading of a page: its words, as mdBook and GitHub have them.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let headings = markdown.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    headings.map(anchor).collect()
}

/// A page without its blocks of code, whose brackets are no links.
fn prose(markdown: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in markdown.lines() {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            // Nor are those of code within a line.
            for (at, part) in line.split('`').enumerate() {
                if at % 2 == 0 {
                    text.push_str(part);
                }
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    let book = root()
        .join("docs")
        .canonicalize()
        .expect("the directory is there");
    for name in pages() {
        let directory = root().join(&name);
        let directory = directory.parent().expect("a page is in a directory");
        let markdown = prose(&page(&name));
        let links = markdown
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("https://") && !link.starts_with("http://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match path {
                "" => root().join(&name),
                path => directory.join(path),
            };
            // The book has what is in docs/ and nothing else.
            let within = to
                .canonicalize()
                .is_ok_and(|to| name == "README.md" || to.starts_with(&book));
            let there = match anchor {
                "" => within && to.is_file(),
                anchor => fs::read_to_string(&to).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !there {
                dead.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn the_book_has_every_page() {
    let summary = page("docs/SUMMARY.md");
    for name in pages() {
        let Some(name) = name.strip_prefix("docs/") else {
            continue;
        };
        let listed = summary.contains(&format!("]({name})"));
        assert!(listed || name == "SUMMARY.md", "{name}");
    }
}

/// The options of every command, by the reference.
fn options() -> BTreeMap<String, BTreeSet<String>> {
    let mut of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut command = String::new();
    for line in page("docs/reference/options.md").lines() {
        match line.strip_prefix("## tonnage ") {
            Some(name) => command = name.to_owned(),
            None if line.starts_with("- ") => {
                let options = line.split(": ").next().unwrap_or_default();
                let words = options.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let named = words.filter(|word| word.starts_with("--")).map(str::to_owned);
                of.entry(command.clone()).or_default().extend(named);
            }
            None => {}
        }
    }
    of
}

#[test]
fn commands_of_the_pages_have_options_that_there_are() {
    let options = options();
    let everywhere = &options[""];
    let mut unknown = Vec::new();
    for name in pages() {
        // What was measured is kept as it was run.
        if name == "docs/performance.md" || name.starts_with("docs/experiments/") {
            continue;
        }
        for line in page(&name).lines() {
            // A command goes to the end of its line or of the code within it, or to a pipe.
            for rest in line.split("tonnage ").skip(1) {
                let command = rest.split(['`', '|', ';', '#']).next().unwrap_or_default();
                let mut words = command.split_whitespace();
                let Some(of) = words.next().and_then(|first| options.get(first)) else {
                    continue;
                };
                for word in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                    let option = word.split(['=', ')', ',', ':']).next().unwrap_or(word);
                    let option = option.trim_end_matches(['.', ']']);
                    if !of.contains(option) && !everywhere.contains(option) && option != "--help" {
                        unknown.push(format!("{name}: {option} of {command}"));
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// `2024-02-29T23:59:58Z`.
fn is_instant(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() == 20 && digits == 14 && word.as_bytes()[10] == b'T' && word.ends_with('Z')
}
