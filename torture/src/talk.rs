//! One person's conversation in a thread: requests, commands and presses, and whether what the thread shows in the
//! end is what they come to.

use crate::explain::{Answered, Ended, Verb, explain};
use crate::reading::{Thread, transcript};
use crate::task::Task;
use crate::world::{CHANNEL, World};
use drydock::emulator::slack::{Message, State};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(15);

/// A conversation.
pub(crate) struct Talk {
    world: Arc<World>,
    number: u32,
    user: String,
    ids: Arc<AtomicU32>,
    root: Option<String>,
    asked: Vec<Asked>,
    commanded: Vec<Commanded>,
    pressed: BTreeSet<(String, &'static str)>,
    /// Something was never answered: the rest would only repeat that.
    is_stuck: bool,
}

struct Asked {
    task: Task,
    acknowledged: bool,
}

struct Commanded {
    verb: Verb,
    acknowledged: bool,
    after: (usize, usize),
}

/// How a command is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Words,
    /// A press of the newest button that says so.
    Button(&'static str),
}

impl Talk {
    pub(crate) fn new(world: &Arc<World>, number: u32, user: String, ids: &Arc<AtomicU32>) -> Self {
        Self {
            world: Arc::clone(world),
            number,
            user,
            ids: Arc::clone(ids),
            root: None,
            asked: Vec::new(),
            commanded: Vec::new(),
            pressed: BTreeSet::new(),
            is_stuck: false,
        }
    }

    /// A new task of so many steps, not asked for yet.
    pub(crate) fn task(&self, steps: usize) -> Task {
        Task {
            id: self.ids.fetch_add(1, Ordering::SeqCst),
            talk: self.number,
            steps,
        }
    }

    /// Asks for a task and does not wait for its end. True if that was acknowledged.
    pub(crate) async fn ask(&mut self, task: Task) -> bool {
        if self.is_stuck {
            return false;
        }
        let mention = if self.root.is_none() { "@drydock " } else { "" };
        let text = format!("{mention}please carry out {} now", task.word());
        let acknowledged = self.say(&text).await;
        if self.asked.is_empty() && !acknowledged {
            // There is no conversation to go on with.
            self.is_stuck = true;
        }
        self.asked.push(Asked { task, acknowledged });
        acknowledged
    }

    /// Asks for a task, and Slack sends that only once: `None` if nobody answered, else the status.
    pub(crate) async fn ask_once(&mut self, task: Task) -> Option<u16> {
        let mention = if self.root.is_none() { "@drydock " } else { "" };
        let text = format!("{mention}please carry out {} now", task.word());
        let written = self
            .world
            .slack
            .write(&self.user, CHANNEL, self.root.as_deref(), &text);
        let mut status = None;
        for event in &written.events {
            let answer = self.world.slack.deliver(event, None).await;
            status = answer.ok().map(|answer| answer.status);
            if status.is_some_and(|status| (200..300).contains(&status)) {
                break;
            }
        }
        let acknowledged = status.is_some_and(|status| (200..300).contains(&status));
        self.world
            .note(&format!("talk {}: {text}: {status:?}", self.number));
        if acknowledged {
            self.world.is_acknowledged();
        }
        if acknowledged || self.root.is_some() {
            self.root.get_or_insert(written.ts);
            self.asked.push(Asked { task, acknowledged });
        }
        status
    }

    /// Whether the newest message was not acknowledged.
    pub(crate) fn is_refused(&self) -> bool {
        self.asked.last().is_none_or(|asked| !asked.acknowledged)
    }

    async fn say(&mut self, text: &str) -> bool {
        let written = self
            .world
            .slack
            .write(&self.user, CHANNEL, self.root.as_deref(), text);
        self.world.note(&format!("talk {}: {text}", self.number));
        self.root.get_or_insert(written.ts);
        let mut acknowledged = false;
        for event in &written.events {
            if self.world.deliver(event).await && !std::mem::replace(&mut acknowledged, true) {
                self.world.is_acknowledged();
            }
        }
        self.world
            .note(&format!("talk {}: acknowledged {acknowledged}", self.number));
        acknowledged
    }

    /// Gives a command and does not wait for its answer. One that was given before has to be answered.
    pub(crate) async fn command(&mut self, verb: Verb, by: By) -> bool {
        if self.is_stuck {
            return false;
        }
        let least = self.read().finished().min(self.asked.len());
        let acknowledged = match by {
            By::Words => self.say(verb.word()).await,
            By::Button(label) => match self.press(label).await {
                Some(acknowledged) => acknowledged,
                None => return false,
            },
        };
        self.commanded.push(Commanded {
            verb,
            acknowledged,
            after: (least, usize::MAX),
        });
        acknowledged
    }

    /// Presses the newest button with a label that was not pressed before; nothing if there is none.
    async fn press(&mut self, label: &'static str) -> Option<bool> {
        self.world.is_up().await;
        let root = self.root.clone()?;
        let has_button = |message: &&Message| message.buttons().iter().any(|button| button.label == label);
        let newest = |state: &State| {
            let found = state.replies(CHANNEL, &root).filter(has_button).last();
            found.map(|message| message.ts.clone())
        };
        let message = self.world.slack.look(newest)?;
        if !self.pressed.insert((message.clone(), label)) {
            return None;
        }
        self.world.note(&format!("talk {}: presses {label}", self.number));
        let answer = self.world.slack.click(&self.user, &message, label).await;
        // Slack does not press again by itself.
        let acknowledged = answer.is_ok_and(|answer| (200..300).contains(&answer.status));
        if acknowledged {
            self.world.is_acknowledged();
        }
        self.world
            .note(&format!("talk {}: acknowledged {acknowledged}", self.number));
        Some(acknowledged)
    }

    /// Waits until every message for a turn has its end.
    pub(crate) async fn until_answered(&mut self) {
        let expected = self.asked.iter().filter(|asked| asked.acknowledged).count();
        self.until("a message", |thread| thread.finished() >= expected)
            .await;
    }

    /// Waits until every command has its answer.
    pub(crate) async fn until_commands_are_answered(&mut self) {
        let expected = self
            .commanded
            .iter()
            .filter(|command| command.acknowledged)
            .count();
        self.until("a command", |thread| thread.answers.len() >= expected)
            .await;
        // It took effect before any message that is sent from now on.
        let most = self.asked.len();
        for command in &mut self.commanded {
            command.after.1 = command.after.1.min(most);
        }
    }

    /// Asks for the patch, and waits for it.
    pub(crate) async fn ends_with_its_patch(&mut self) {
        self.until_answered().await;
        self.until_commands_are_answered().await;
        self.command(Verb::Patch, By::Words).await;
        self.until_commands_are_answered().await;
        let sent = |thread: &Thread| {
            let announced = thread.answers.iter().filter(|answer| announces_patch(answer));
            announced.count() <= thread.patches.len()
        };
        self.until("a patch", sent).await;
        self.until("a card", |thread| thread.open == 0).await;
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Thread) -> bool) {
        if self.is_stuck {
            return;
        }
        let asked = Instant::now();
        loop {
            if holds(&self.read()) {
                return;
            }
            let patience = self.world.patience;
            let waited = self.world.up_since().map(|since| since.max(asked).elapsed());
            if waited.is_some_and(|waited| waited > patience) {
                self.is_stuck = true;
                let what = format!("{what} has no end after {} s", patience.as_secs());
                return self.violated(&what);
            }
            if asked.elapsed() > patience * 4 {
                self.is_stuck = true;
                return self.violated("nothing came to an end");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The thread as it is shown now.
    pub(crate) fn read(&self) -> Thread {
        let root = self.root.as_deref().unwrap_or_default();
        self.world.slack.look(|state| Thread::read(state, CHANNEL, root))
    }

    pub(crate) fn violated(&self, what: &str) {
        let root = self.root.as_deref().unwrap_or_default();
        let shown = self.world.slack.look(|state| transcript(state, CHANNEL, root));
        self.world
            .violated(format!("talk {}: {what}\n{shown}", self.number));
    }

    /// Messages and commands that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        let asked = self.asked.iter().filter(|asked| asked.acknowledged).count();
        asked
            + self
                .commanded
                .iter()
                .filter(|command| command.acknowledged)
                .count()
    }

    /// Checks what the thread shows, once nothing is on its way any more.
    pub(crate) fn check(&self) {
        if self.is_stuck {
            return;
        }
        let thread = self.read();
        if let Some(wrong) = thread.wrong.first() {
            return self.violated(wrong);
        }
        let messages = match self.messages(&thread) {
            Ok(messages) => messages,
            Err(why) => return self.violated(&why),
        };
        let commands = match self.commands(&thread) {
            Ok(commands) => commands,
            Err(why) => return self.violated(&why),
        };
        // Which of the messages without a result were stopped and which given up, nothing on the surface says.
        let explained = messages
            .iter()
            .flat_map(|messages| commands.iter().map(|commands| explain(messages, commands)));
        let explained: Vec<Result<(), String>> = explained.collect();
        if explained.iter().all(Result::is_err)
            && let Some(Err(why)) = explained.into_iter().next()
        {
            self.violated(&why);
        }
    }

    /// How each message ended, in all the ways that fit.
    fn messages(&self, thread: &Thread) -> Result<Vec<Vec<(Task, Ended)>>, String> {
        let mut ended = Vec::new();
        for Asked { task, acknowledged } in &self.asked {
            let done = task.done();
            match thread
                .results
                .iter()
                .filter(|result| result.contains(&done))
                .count()
            {
                0 if *acknowledged => ended.push((task.clone(), None)),
                // It was never acknowledged, so it may be gone.
                0 => {}
                1 => ended.push((task.clone(), Some(Ended::Done))),
                more => return Err(format!("task {} was answered {more} times", task.id)),
            }
        }
        let unchecked = thread
            .results
            .iter()
            .find(|result| result.contains("I could not check"));
        if let Some(unchecked) = unchecked {
            return Err(format!("a change was answered without its checks: {unchecked}"));
        }
        let open = ended.iter().filter(|(_, ended)| ended.is_none()).count();
        let is_done = |result: &&String| self.asked.iter().any(|asked| result.contains(&asked.task.done()));
        let cut: Vec<&String> = thread.results.iter().filter(|result| !is_done(result)).collect();
        let (stopped, broken): (Vec<&String>, Vec<&String>) =
            cut.iter().partition(|result| result.contains("Stopped at step"));
        if let Some(broken) = broken.first() {
            return Err(format!(
                "a message was answered with neither its task nor a stop: {broken}"
            ));
        }
        if stopped.len() + thread.refusals.len() != open {
            return Err(format!(
                "{open} messages are without their task's answer, {} were stopped and {} refused",
                stopped.len(),
                thread.refusals.len()
            ));
        }
        let stops = self
            .commanded
            .iter()
            .filter(|command| command.verb == Verb::Stop)
            .count();
        let never_begun = thread
            .refusals
            .iter()
            .filter(|refusal| refusal.contains("Stopped before it began"));
        if stopped.len() + never_begun.count() > stops {
            return Err("more messages were stopped than anybody asked for".to_owned());
        }
        Ok(assignments(&ended, stopped.len()))
    }

    /// The commands with their answers, in all the ways that fit: one that was not acknowledged may be gone.
    fn commands(&self, thread: &Thread) -> Result<Vec<Vec<Answered>>, String> {
        let uncertain: Vec<usize> = (0..self.commanded.len())
            .filter(|index| !self.commanded[*index].acknowledged)
            .collect();
        let gone = self.commanded.len().checked_sub(thread.answers.len());
        let Some(gone) = gone.filter(|gone| *gone <= uncertain.len()) else {
            let (commands, answers) = (self.commanded.len(), thread.answers.len());
            return Err(format!(
                "{commands} commands have {answers} answers: {:#?}",
                thread.answers
            ));
        };
        let announced = thread
            .answers
            .iter()
            .filter(|answer| announces_patch(answer))
            .count();
        if announced != thread.patches.len() {
            return Err(format!(
                "{announced} patches were announced and {} sent",
                thread.patches.len()
            ));
        }
        let chosen = subsets(&uncertain, gone);
        let ways = chosen.iter().map(|missing| {
            let mut patches = thread.patches.iter();
            let present = self
                .commanded
                .iter()
                .enumerate()
                .filter(|(index, _)| !missing.contains(index));
            let answered = present
                .zip(&thread.answers)
                .map(|((_, command), answer)| Answered {
                    verb: command.verb,
                    patch: announces_patch(answer).then(|| patches.next().cloned()).flatten(),
                    answer: answer.clone(),
                    after: command.after,
                });
            answered.collect()
        });
        Ok(ways.collect())
    }
}

fn announces_patch(answer: &str) -> bool {
    answer.starts_with("CHG-") && answer.contains(", against ")
}

/// All ways in which so many of the messages without an end were stopped, and the others refused.
fn assignments(ended: &[(Task, Option<Ended>)], stopped: usize) -> Vec<Vec<(Task, Ended)>> {
    let open: Vec<usize> = (0..ended.len())
        .filter(|index| ended[*index].1.is_none())
        .collect();
    let ways = subsets(&open, stopped).into_iter().map(|stopped| {
        let ended = ended.iter().enumerate().map(|(index, (task, ended))| {
            let otherwise = if stopped.contains(&index) {
                Ended::Stopped
            } else {
                Ended::Refused
            };
            (task.clone(), ended.unwrap_or(otherwise))
        });
        ended.collect()
    });
    ways.collect()
}

/// All choices of so many of a few.
fn subsets(of: &[usize], count: usize) -> Vec<Vec<usize>> {
    let Some((first, rest)) = of.split_first() else {
        return if count == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let mut chosen = subsets(rest, count);
    if let Some(fewer) = count.checked_sub(1) {
        chosen.extend(subsets(rest, fewer).into_iter().map(|mut rest| {
            rest.insert(0, *first);
            rest
        }));
    }
    chosen
}
