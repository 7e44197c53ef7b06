//! A round: a load is hit by faults, gone on with after each in another way, and what it leaves is compared with what
//! the seed says.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    Fault, LOOK, TIME_MAX,
    scenario::Scenario,
    target::{Run, Target},
    wire::Event,
};
use crate::{
    database::variable,
    events::Chance,
    process::{Ended, Running, count, report},
};

/// Attempts without a fault after which a round must have come to its end. The last faults may still be felt.
const ATTEMPTS_LAST: u32 = 5;
const INTERRUPT: i32 = 2;

fn faults(target: &Target) -> Vec<Fault> {
    use Fault::{Alter, Clock, Commit, Cut, Disk, Kill, Report, Restore, Second, Server, Source, Stall};
    let mut faults = vec![Kill, Kill, Second, Disk, Report, Clock, Alter, Source, Restore];
    if target.may_fail() {
        faults.extend([Server, Server]);
    }
    if target.way.is_some() {
        faults.extend([Cut, Cut, Commit, Commit, Stall]);
    } else if target.may_pause() {
        faults.push(Stall);
    }
    if target.is_relative() {
        faults.retain(|fault| !matches!(fault, Disk | Alter | Restore));
    }
    faults
}

/// What has happened, told when the round is over, and how to see it again.
struct Story {
    text: String,
    seed: u64,
}

impl Drop for Story {
    fn drop(&mut self) {
        let failed = match std::thread::panicking() {
            true => format!(
                "\n    FAILED; TONNAGE_FAULT_SEED={} begins the same again",
                self.seed
            ),
            false => String::new(),
        };
        eprintln!("seed {}: {}{failed}", self.seed, self.text);
    }
}

/// How an attempt is made that is to meet a fault.
#[derive(Default)]
struct Setting {
    /// Rows a second.
    rate: Option<u64>,
    /// The largest size of a file, in KiB.
    file_max: Option<u64>,
    /// How far the clock is off, as faketime has it.
    clock: Option<&'static str>,
    report: Option<PathBuf>,
}

struct Round<'a> {
    target: &'a mut Target,
    scenario: Scenario,
    chance: Chance,
    /// The faults so far.
    met: &'a mut Vec<Fault>,
    until: Instant,
    /// What each attempt was asked for and what it said.
    attempts: File,
}

/// Makes the round of `seed` ready; the remainder of the seed chooses the operation.
fn begin<'a>(target: &'a mut Target, seed: u64, met: &'a mut Vec<Fault>) -> (Round<'a>, Story) {
    let mut chance = Chance::of(seed);
    let operations = target.operations();
    let operation = operations[(seed % operations.len() as u64) as usize];
    let scenario = Scenario::generate(operation, target.constraints(), &mut chance);
    let text = format!(
        "{}, {}, {} rows, {} bad",
        target.name,
        operation.name(),
        scenario.rows,
        scenario.bad()
    );
    let story = Story { text, seed };
    target.prepare(&scenario);
    let attempts = File::create(scenario.directory.path().join("attempts.txt")).expect("a file");
    let round = Round {
        target,
        scenario,
        chance,
        met,
        until: Instant::now() + TIME_MAX,
        attempts,
    };
    (round, story)
}

/// Runs the round of `seed`; which faults it met goes to `met`.
pub fn run(target: &mut Target, seed: u64, met: &mut Vec<Fault>) {
    let (mut round, mut story) = begin(target, seed, met);
    let faults = faults(round.target);
    let count = 1 + round.chance.below(3);
    for number in 1..=count {
        let fault = match round.chance.one(&faults) {
            // It leaves nothing for others to do.
            Fault::Report if number < count => Fault::Kill,
            fault => fault,
        };
        let told = round.hit(fault);
        story.text.push_str(&format!("; {told}"));
        if let Some(way) = &round.target.way {
            way.release();
        }
        if fault == Fault::Server && round.target.is_emptied_by_crashes() {
            round.go_on_without_rows();
            story.text.push_str(", the table emptied, begun anew");
        }
    }
    let attempts = round.finish();
    story.text.push_str(&format!("; done after {attempts} more"));
    round.check();
}

/// A load to which nothing comes through any more ends when it is told to, and goes on when something does.
pub fn run_stalled(target: &mut Target, seed: u64) {
    let mut met = Vec::new();
    let (mut round, mut story) = begin(target, seed, &mut met);
    let mut running = round.start_slowly();
    let moment = round.random_step(&mut running);
    let way = round.target.way.as_ref().expect("a way to the server");
    way.wire.stop();
    // The second time leaves at once.
    while round.goes_on(&mut running) {
        running.signal(INTERRUPT);
        sleep(Duration::from_millis(50));
    }
    way.release();
    let ended = round.wait(running);
    story.text.push_str(&format!("; stalled for ever {moment}"));
    // Before it listens for it, a signal ends it at once; and it may have come to its end.
    let is_fine = matches!(ended.status.code(), None | Some(0 | 3 | 130));
    assert!(is_fine, "{:?}\n{}", ended.status, ended.stderr);
    round.finish();
    round.check();
}

impl Round<'_> {
    /// An attempt, with a batch size, a number of jobs and a method of its own.
    fn attempt(&mut self, setting: &Setting) -> Command {
        let mut command = crate::process::tonnage();
        self.target.add_load(&mut command, &self.scenario);
        let chance = &mut self.chance;
        command.args(["--batch-rows", chance.one(&["7", "40", "110", "400", "5000"])]);
        command.args(["--batch-bytes", chance.one(&["4KiB", "64KiB", "1MiB"])]);
        command.args(["--jobs", chance.one(&["1", "2", "3", "4"])]);
        let methods = self.target.methods(self.scenario.operation);
        command.args(["--method", chance.one(methods)]);
        if let Some(rate) = setting.rate {
            command.args(["--rate", &format!("{rate}/s")]);
        }
        let report = setting.report.clone().unwrap_or_else(|| self.report());
        command.arg("--report").arg(report);
        if let Some(kibibytes) = setting.file_max {
            command = cramped(&command, kibibytes);
        }
        if let Some(clock) = setting.clock {
            at_another_time(&mut command, clock);
        }
        command.current_dir(self.scenario.directory.path());
        command
    }

    fn report(&self) -> PathBuf {
        self.scenario.directory.path().join("report.json")
    }

    fn start(&mut self, setting: &Setting) -> Running {
        let _ = std::fs::remove_file(self.report());
        let mut command = self.attempt(setting);
        writeln!(self.attempts, "{command:?}").expect("it is noted");
        Running::start(&mut command)
    }

    /// Whether an attempt goes on; fails once the round has taken longer than it may.
    fn goes_on(&self, running: &mut Running) -> bool {
        assert!(
            Instant::now() < self.until,
            "a round may take {} minutes\n{}",
            TIME_MAX.as_secs() / 60,
            running.said()
        );
        sleep(LOOK);
        !running.has_ended()
    }

    /// Waits for the end of an attempt, which may be any but a defect.
    fn wait(&mut self, mut running: Running) -> Ended {
        while self.goes_on(&mut running) {}
        self.note(running.wait())
    }

    /// SIGKILL of an attempt.
    fn kill(&mut self, running: Running) {
        self.note(running.kill());
    }

    #[track_caller]
    fn note(&mut self, ended: Ended) -> Ended {
        let Ended { status, stderr } = &ended;
        writeln!(self.attempts, "{stderr}{status}\n").expect("it is noted");
        no_defect(&ended);
        ended
    }

    /// One so slow that it is met in its middle.
    fn start_slowly(&mut self) -> Running {
        let rate = self.scenario.rows * (1 + self.chance.below(3));
        self.start(&Setting {
            rate: Some(rate),
            ..Setting::default()
        })
    }

    /// Waits for a moment of it; says which.
    fn random_step(&mut self, running: &mut Running) -> String {
        if self.chance.below(4) == 0 {
            // Also while it connects, takes the run over or mends the rejects file.
            let micros = self.chance.below(80_000);
            sleep(Duration::from_micros(micros));
            return format!("after {} ms", micros / 1_000);
        }
        self.midst(running)
    }

    /// Waits until it has handled some rows; says how many there are.
    fn midst(&mut self, running: &mut Running) -> String {
        let before = self.target.handled(&self.scenario);
        let goal = before
            + 1
            + self
                .chance
                .below(self.scenario.rows.saturating_sub(before).max(1) / 2 + 1);
        loop {
            let handled = self.target.handled(&self.scenario);
            if handled >= goal {
                return format!("at row {handled}");
            }
            if !self.goes_on(running) {
                return format!("after its end, before row {goal}");
            }
        }
    }

    /// Has an attempt meet `fault`, and waits for its end; says what happened.
    fn hit(&mut self, fault: Fault) -> String {
        let fault = match fault {
            // There a clock that is behind when a run begins lets older rows win, which is not promised otherwise.
            Fault::Clock if self.target.stamps() && self.target.handled(&self.scenario) == 0 => Fault::Kill,
            fault => fault,
        };
        self.met.push(fault);
        match fault {
            Fault::Kill => {
                let mut running = self.start_slowly();
                let moment = self.random_step(&mut running);
                self.kill(running);
                format!("killed {moment}")
            }
            Fault::Server => self.hit_server(),
            Fault::Cut => {
                let mut cuts = 1 + self.chance.below(4);
                let told = format!("cut up to {cuts} times");
                let rate = self.scenario.rows * 2;
                let mut running = self.start(&Setting {
                    rate: Some(rate),
                    ..Setting::default()
                });
                while self.goes_on(&mut running) {
                    if let Some(way) = &self.target.way
                        && cuts > 0
                        && !way.wire.is_armed()
                    {
                        way.wire.arm(1 + self.chance.below(40_000), Event::Cut);
                        cuts -= 1;
                    }
                }
                self.end_with_report(running, &told)
            }
            Fault::Commit => {
                let cuts = 1 + self.chance.below(6);
                let chance = self.chance.another();
                if let Some(way) = &self.target.way {
                    way.proxy.arm_by(cuts, chance);
                }
                let running = self.start(&Setting::default());
                self.end_with_report(running, &format!("cut up to {cuts} times around a commit"))
            }
            Fault::Stall => {
                let time = Duration::from_millis(20 + self.chance.below(600));
                let bytes = 1 + self.chance.below(40_000);
                let told = format!("stalled for {} ms", time.as_millis());
                if let Some(way) = &self.target.way {
                    way.wire.arm(bytes, Event::Stall(time));
                    let running = self.start(&Setting::default());
                    return self.end_with_report(running, &told);
                }
                let mut running = self.start_slowly();
                let moment = self.random_step(&mut running);
                self.target.pause(time);
                self.end(running, &format!("a node {told} {moment}"))
            }
            Fault::Second => {
                let mut first = self.start_slowly();
                let moment = self.random_step(&mut first);
                let second = self.start(&Setting::default());
                let told = format!("a second one {moment}");
                let told = self.end(second, &told);
                self.end(first, &told)
            }
            Fault::Disk if self.target.has_disk() && self.chance.below(2) == 0 => {
                let kibibytes = self.chance.one(&[0, 16, 64, 256]);
                self.target.fill_disk(Some(kibibytes));
                let running = self.start(&Setting::default());
                let told = format!("the server's disk full but for {kibibytes} KiB");
                let told = self.end(running, &told);
                self.target.fill_disk(None);
                told
            }
            Fault::Disk => {
                let kibibytes = self.chance.one(&[1, 4, 12, 40, 80, 160]);
                let running = self.start(&Setting {
                    file_max: Some(kibibytes),
                    ..Setting::default()
                });
                self.end(running, &format!("files full at {kibibytes} KiB"))
            }
            Fault::Report => {
                let running = self.start(&Setting {
                    report: Some("/dev/full".into()),
                    ..Setting::default()
                });
                self.end(running, "no room for the report")
            }
            Fault::Clock => {
                let clock = self.chance.one(&["-3d", "+40d", "-20y"]);
                let rate = self.scenario.rows * 2;
                let mut running = self.start(&Setting {
                    clock: Some(clock),
                    rate: Some(rate),
                    ..Setting::default()
                });
                if self.chance.below(2) == 0 {
                    let moment = self.random_step(&mut running);
                    self.kill(running);
                    return format!("a clock off by {clock}, killed {moment}");
                }
                self.end(running, &format!("a clock off by {clock}"))
            }
            Fault::Alter => {
                let mut running = self.start_slowly();
                let moment = self.midst(&mut running);
                let change = self.chance.one(self.target.changes());
                self.target.alter(change, &self.scenario);
                let told = self.end(running, &format!("{} {moment}", change.name()));
                self.target.alter_back(change, &self.scenario);
                told
            }
            Fault::Source => self.hit_source(),
            Fault::Restore => self.hit_with_backup(),
            Fault::Lock | Fault::Copy => unreachable!("it is not drawn here"),
        }
    }

    /// A file grows, shrinks or gets other bytes while it is read, or has been.
    fn hit_source(&mut self) -> String {
        let file = self.chance.below(self.scenario.files.len() as u64) as usize;
        let path = self.scenario.files[file].clone();
        let text = std::fs::read(&path).expect("an input file");
        let modified = path.metadata().and_then(|file| file.modified());
        let mut running = self.start_slowly();
        let moment = self.midst(&mut running);
        let mut open = File::options().write(true).open(&path).expect("an input file");
        let to = self.chance.below(text.len() as u64);
        let what = match self.chance.below(3) {
            0 => {
                open.set_len(to).expect("it can be cut");
                format!("cut to {to} bytes")
            }
            1 => {
                open.seek(SeekFrom::End(0)).expect("it has an end");
                open.write_all(b"-1,grown,1,1.00,\n").expect("it can grow");
                "grown".to_owned()
            }
            _ => {
                open.seek(SeekFrom::Start(to)).expect("it is as long");
                open.write_all(b"7").expect("it can be written to");
                format!("written to at {to}")
            }
        };
        let ended = self.wait(running);
        let has_noticed = ended.stderr.contains("since reading began");
        let is_fine = has_noticed || matches!(ended.status.code(), Some(0 | 3));
        assert!(is_fine, "{:?}\n{}", ended.status, ended.stderr);
        std::fs::write(&path, text).expect("an input file");
        let restored = File::options().write(true).open(&path);
        restored
            .and_then(|file| file.set_modified(modified?))
            .expect("its time can be set");
        format!("a file {what} {moment} (exit {:?})", ended.status.code())
    }

    /// What an attempt has done is undone by a backup that is older.
    fn hit_with_backup(&mut self) -> String {
        let backup = self.chance.one(self.target.backups());
        let mut moments = Vec::new();
        for is_saved in [false, true] {
            if is_saved {
                self.target.save(backup, &self.scenario);
            }
            let mut running = self.start_slowly();
            moments.push(self.random_step(&mut running));
            self.kill(running);
        }
        self.target.restore(backup, &self.scenario);
        let told = format!(
            "killed {}, and what was then put back by a {backup:?}",
            moments.join(" and ")
        );
        if self.target.known(&self.scenario) == 0 {
            // Nothing had begun then. What is left of the rejects is a file that nobody knows.
            let _ = std::fs::remove_file(self.scenario.rejects());
            return told;
        }
        if backup.keeps_tables() {
            return told;
        }
        self.refuses();
        self.begin_anew();
        format!("{told}, begun anew")
    }

    /// The server has lost all rows and kept its ledger. An attempt that began with it, or waited for it, has begun
    /// without the rows from before.
    fn go_on_without_rows(&mut self) {
        let is_empty = self.target.rows(&self.scenario).is_empty();
        if is_empty && self.target.written(&self.scenario) > 0 {
            self.refuses();
        }
        self.begin_anew();
    }

    /// An attempt at a run whose table is another one, or has lost its rows, writes nothing.
    fn refuses(&mut self) {
        let before = self.target.rows(&self.scenario);
        let mut running = self.start(&Setting::default());
        while self.goes_on(&mut running) {}
        let ended = running.wait();
        let is_refused = matches!(ended.status.code(), Some(1 | 2)) && ended.stderr.contains("--restart");
        assert!(is_refused, "{:?}\n{}", ended.status, ended.stderr);
        assert_eq!(self.target.rows(&self.scenario), before, "{}", ended.stderr);
    }

    /// As the user who has put the rows back that were there before.
    fn begin_anew(&mut self) {
        self.target.begin_anew(&self.scenario);
        let _ = std::fs::remove_file(self.scenario.rejects());
    }

    fn hit_server(&mut self) -> String {
        let mut running = self.start_slowly();
        let moment = self.random_step(&mut running);
        self.target.fail();
        let away = Duration::from_millis(self.chance.below(700));
        sleep(away);
        let mut told = format!("the server killed {moment}, away for {} ms", away.as_millis());
        if self.chance.below(3) > 0 {
            self.target.recover();
            return self.end_with_report(running, &told);
        }
        self.kill(running);
        told.push_str(", and killed");
        self.target.recover();
        told
    }

    /// The same of an attempt whose report nobody hinders.
    fn end_with_report(&mut self, running: Running, told: &str) -> String {
        let told = self.end(running, told);
        // There is none if it ended before its first row. It balances, or this fails.
        if self.report().exists() {
            report(&self.report());
        }
        told
    }

    /// Waits for its end; says what it was.
    fn end(&mut self, running: Running, told: &str) -> String {
        let ended = self.wait(running);
        match ended.status.code() {
            Some(code) => format!("{told} (exit {code})"),
            None => format!("{told} (signal {:?})", ended.status.signal()),
        }
    }

    /// Goes on without faults until all is done; how many attempts that took.
    fn finish(&mut self) -> u32 {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let running = self.start(&Setting::default());
            let ended = self.wait(running);
            if matches!(ended.status.code(), Some(0 | 3)) {
                break;
            }
            assert!(attempts < ATTEMPTS_LAST, "{:?}\n{}", ended.status, ended.stderr);
        }
        let told = report(&self.report());
        if told["state"] == "finished" {
            assert_eq!(count(&told, "/rows/read"), self.scenario.rows, "{told:#}");
            assert_eq!(count(&told, "/rows/unfinished"), 0, "{told:#}");
        } else {
            assert_eq!(told["state"], "nothing to do", "{told:#}");
        }
        attempts
    }

    fn check(&mut self) {
        let scenario = &self.scenario;
        scenario.check_rows(&self.target.rows(scenario));
        scenario.check_rejects();
        let runs = self.target.runs(scenario);
        assert_eq!(runs.len(), self.target.members(), "one run: {runs:?}");
        // Of several databases one that is finished says that all are; the others are closed by the next load.
        let finished = runs.iter().filter(|run| run.finished).count();
        assert!(finished > 0, "{runs:?}");
        if finished == runs.len() {
            self.check_account(&runs);
        }
        // One more time there is nothing to do, and nothing is done.
        let running = self.start(&Setting::default());
        let ended = self.wait(running);
        ended.expect(0);
        let told = report(&self.report());
        assert_eq!(told["state"], "nothing to do", "{}", ended.stderr);
        let scenario = &self.scenario;
        scenario.check_rows(&self.target.rows(scenario));
        scenario.check_rejects();
    }

    #[track_caller]
    fn check_account(&self, runs: &[Run]) {
        let scenario = &self.scenario;
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
        let (written, skipped) = (sum(|run| run.written), sum(|run| run.skipped));
        let rejected = sum(|run| run.rejected);
        assert_eq!(rejected, scenario.bad(), "{runs:?}");
        assert_eq!(written + skipped + rejected, scenario.rows, "{runs:?}");
        if let Some(expected) = scenario.written() {
            assert_eq!(written, expected, "{runs:?}");
        }
    }
}

impl Drop for Round<'_> {
    /// Beside what a failed round leaves lies what the ledger and the server have to say.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let directory = self.scenario.directory.path();
            let _ = std::fs::write(
                directory.join("ledger.txt"),
                self.target.ledger_text(&self.scenario),
            );
            let _ = std::fs::write(directory.join("server.log"), self.target.log());
        }
    }
}

/// The same in a shell whose files may not grow beyond so many KiB.
pub fn cramped(command: &Command, kibibytes: u64) -> Command {
    let script = "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"";
    let mut cramped = Command::new("bash");
    cramped.args(["--noprofile", "--norc", "-c", script, "bash"]);
    cramped.arg(kibibytes.to_string());
    cramped.arg(command.get_program()).args(command.get_args());
    cramped
}

/// Gives it another time, as faketime has it.
pub fn at_another_time(command: &mut Command, clock: &str) {
    command.env("LD_PRELOAD", variable("TONNAGE_TEST_FAKETIME"));
    // What counts time goes on as it does, and files are as old as they are.
    command.envs([
        ("FAKETIME", clock),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
    ]);
}

/// Fails if tonnage found itself at fault, or took an attempt that it should go on with for another load.
#[track_caller]
fn no_defect(ended: &Ended) {
    let is_defect = ["defect of tonnage", "panicked", "--restart loads it"]
        .iter()
        .any(|words| ended.stderr.contains(words));
    assert!(!is_defect, "{:?}\n{}", ended.status, ended.stderr);
}
