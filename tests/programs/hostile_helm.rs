//! A stand-in for helm that tries the attacks of a hostile chart. The name of the release selects the attack. The
//! answer is an object whose fields report what worked.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [.., name, chart] = arguments.as_slice() else {
        eprintln!("usage: template .. NAME CHART");
        std::process::exit(2);
    };
    let mut values = String::new();
    std::io::stdin().read_to_string(&mut values).expect("values");
    let tried = match name.as_str() {
        "look" => look(chart),
        "connect" => connect(values.trim_start_matches("port: ").trim()),
        "start" => start(),
        "write" => write(chart),
        "arguments" => vec![("arguments", arguments.join(" "))],
        "hang" => loop {
            std::thread::park();
        },
        "spin" => loop {
            std::hint::black_box(&values);
        },
        "flood" => loop {
            std::io::stdout()
                .write_all(&[b'x'; 65_536])
                .expect("the output is read");
        },
        "eat" => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(vec![1_u8; 16 << 20]);
                std::hint::black_box(&eaten);
            }
        }
        "fail" => {
            eprintln!("Error: {chart}/templates/a.yaml:1: it is hostile");
            std::process::exit(1);
        }
        other => panic!("no deed is called `{other}`"),
    };
    println!("kind: Deeds\nmetadata:\n  name: {name}\ndata:");
    for (what, result) in tried {
        println!("  {what}: {result:?}");
    }
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "worked".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn look(chart: &str) -> Vec<(&'static str, String)> {
    let files = |place: &str| match std::fs::read_dir(place) {
        Ok(entries) => {
            let mut names: Vec<String> = entries
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            names.sort();
            names.join(" ")
        }
        Err(error) => error.to_string(),
    };
    let link = Path::new(chart).join("link");
    vec![
        ("chart", said(std::fs::read(format!("{chart}/Chart.yaml")))),
        ("siblings", files(".")),
        ("secret", said(std::fs::read(format!("{chart}/.env")))),
        ("passwd", said(std::fs::read("/etc/passwd"))),
        ("around", files("../..")),
        ("root", files("/root")),
        ("process", said(std::fs::read("/proc/self/environ"))),
        ("link", said(std::os::unix::fs::symlink("/etc/passwd", link))),
        (
            "environment",
            std::env::vars()
                .map(|(name, _)| name)
                .filter(|name| !name.contains("HELM"))
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ]
}

fn connect(port: &str) -> Vec<(&'static str, String)> {
    vec![
        ("tcp", said(TcpStream::connect(format!("127.0.0.1:{port}")))),
        ("udp", said(UdpSocket::bind("127.0.0.1:0"))),
        ("unix", said(UnixStream::connect("/run/docker.sock"))),
    ]
}

fn start() -> Vec<(&'static str, String)> {
    let shell = || Command::new("/bin/sh").arg("-c").arg("true").status();
    let itself = std::env::current_exe().map_or_else(|_| "/proc/self/exe".into(), |path| path);
    vec![
        ("child", said(shell())),
        ("itself", said(Command::new(itself).arg("x").status())),
        (
            "thread",
            said(
                std::thread::Builder::new()
                    .spawn(|| 1)
                    .map(std::thread::JoinHandle::join),
            ),
        ),
        // Returns only on failure.
        (
            "become",
            Command::new("/bin/sh").arg("-c").arg("true").exec().to_string(),
        ),
        ("library", become_library()),
    ]
}

/// Executes the C library, which is a program as well and is readable.
fn become_library() -> String {
    let arch = std::env::consts::ARCH;
    let places = [
        format!("/lib/{arch}-linux-gnu/libc.so.6"),
        "/lib64/libc.so.6".to_owned(),
    ];
    let there = places.iter().find(|place| std::fs::metadata(place).is_ok());
    there.map_or("none".to_owned(), |place| Command::new(place).exec().to_string())
}

fn write(chart: &str) -> Vec<(&'static str, String)> {
    vec![
        ("chart", said(std::fs::write(format!("{chart}/x"), "x"))),
        (
            "home",
            said(std::fs::write(
                format!("{}/x", std::env::var("HOME").expect("a home")),
                "x",
            )),
        ),
        ("tmp", said(std::fs::write("/tmp/drydock-hostile", "x"))),
        ("truncate", said(std::fs::File::create("/dev/null"))),
    ]
}
