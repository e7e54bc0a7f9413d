//! A program of task steps. Its first argument selects what it does. It writes a line for each thing that it tried to
//! `$DRYDOCK_OUT`, with the result.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last bytes of a copy of this program that does not wait.
const GO: &[u8] = b"go";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("report") => result(&report(&arguments)),
        Some("look") => result(&look(&arguments)),
        Some("print") => println!("only printed"),
        Some("wait") => wait(),
        Some("fail") => {
            println!("half of the output");
            eprintln!("first line\nit is wrong");
            std::process::exit(3);
        }
        Some("flood") => loop {
            std::io::stdout()
                .write_all(&[b'x'; 65_536])
                .expect("the output is read");
        },
        Some("noise") => {
            for number in 0..100_000 {
                eprintln!("warning {number}: nothing");
            }
            println!("done");
        }
        Some("threads") => {
            for _ in 0..1_100 {
                let started = std::thread::Builder::new().stack_size(16 << 10).spawn(idle);
                started.expect("a thread");
            }
            idle();
        }
        Some("imitate") => {
            let text = "x".repeat(20_000);
            eprint!("{{\"Refused\":\"\\u001b[31mno {text}\"}}");
            std::process::exit(125);
        }
        Some("files") => {
            for number in 0..10_100 {
                std::fs::write(home().join(number.to_string()), "").expect("a file");
            }
        }
        other => panic!("nothing is called {other:?}"),
    }
}

fn variable(name: &str) -> PathBuf {
    std::env::var(name).expect(name).into()
}

fn home() -> PathBuf {
    variable("HOME")
}

fn result(lines: &[(&str, String)]) {
    let lines: String = lines
        .iter()
        .map(|(what, result)| format!("{what}: {result}\n"))
        .collect();
    std::fs::write(variable("DRYDOCK_OUT"), lines).expect("the result");
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "worked".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn report(arguments: &[String]) -> Vec<(&'static str, String)> {
    let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    names.sort();
    let read = |place: &Path| std::fs::read_to_string(place).unwrap_or_else(|error| error.to_string());
    vec![
        ("arguments", format!("{arguments:?}")),
        ("input", read(&variable("DRYDOCK_IN"))),
        ("environment", names.join(" ")),
        ("title", std::env::var("TITLE").unwrap_or_default()),
        ("file", read(Path::new("note.txt"))),
        ("secret", said(std::fs::read(".env"))),
        ("place", home().display().to_string()),
    ]
}

/// Tries what only a program outside of the sandbox can do. The arguments are the path of the database of the server, and
/// a port of this machine.
fn look(arguments: &[String]) -> Vec<(&'static str, String)> {
    let [_, database, port] = arguments else {
        panic!("usage: look DATABASE PORT");
    };
    let input = variable("DRYDOCK_IN");
    vec![
        ("passwd", said(std::fs::read("/etc/passwd"))),
        ("database", said(std::fs::read(database))),
        ("others", said(std::fs::read_dir(home().join("../..")))),
        ("network", said(TcpStream::connect(format!("127.0.0.1:{port}")))),
        ("change", said(std::fs::write("note.txt", "changed"))),
        ("create", said(std::fs::write("new.txt", "new"))),
        ("input", said(std::fs::write(input, "{}"))),
        (
            "shell",
            said(Command::new("/bin/sh").args(["-c", "true"]).status()),
        ),
        (
            "thread",
            said(
                std::thread::Builder::new()
                    .spawn(|| 1)
                    .map(std::thread::JoinHandle::join),
            ),
        ),
        ("home", said(std::fs::write(home().join("own.txt"), "own"))),
    ]
}

/// Says that it runs, and ends only if the file of this program ends with [`GO`].
fn wait() {
    std::fs::write(home().join("started"), "").expect("a file");
    let program = std::env::args().next().expect("the path of this program");
    let goes_on = || std::fs::read(&program).is_ok_and(|bytes| bytes.ends_with(GO));
    if goes_on() {
        return result(&[("waited", "no".to_owned())]);
    }
    idle();
}

fn idle() {
    loop {
        std::thread::park();
    }
}
