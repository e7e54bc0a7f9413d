//! The check that a thread shows the results of all its messages and commands in the end.

use crate::conversation::{TaskMessage, UserConversation, announces_patch};
use crate::explain::{AnsweredCommand, CommandKind, MessageEnd, explain};
use crate::slack_thread::Thread;
use crate::task::Task;

/// The number of later commands that may have been answered before an unacknowledged one.
const LATER_MAX: usize = 4;

impl UserConversation {
    /// Checks what the thread shows, once no message is in delivery any more.
    pub(crate) fn check(&self) {
        if self.is_stuck {
            return;
        }
        let thread = self.read();
        if let Some(wrong) = thread.wrong.first() {
            return self.report_violation(wrong);
        }
        let messages = match self.messages(&thread) {
            Ok(messages) => messages,
            Err(why) => return self.report_violation(&why),
        };
        let commands = match self.commands(&thread) {
            Ok(commands) => commands,
            Err(why) => return self.report_violation(&why),
        };
        // The thread does not show which of the messages without a result were stopped, and which were given up.
        let explained = messages
            .iter()
            .flat_map(|messages| commands.iter().map(|commands| explain(messages, commands)));
        let explained: Vec<Result<(), String>> = explained.collect();
        if explained.iter().all(Result::is_err)
            && let Some(Err(why)) = explained.into_iter().next()
        {
            self.report_violation(&why);
        }
    }

    /// Returns the outcome of each message, in all ways that fit the thread.
    fn messages(&self, thread: &Thread) -> Result<Vec<Vec<(Task, MessageEnd)>>, String> {
        let mut ended = Vec::new();
        for TaskMessage { task, acknowledged } in &self.messages {
            let done = task.done();
            match thread
                .results
                .iter()
                .filter(|result| result.contains(&done))
                .count()
            {
                0 if *acknowledged => ended.push((task.clone(), None)),
                // It was never acknowledged, so it may be lost.
                0 => {}
                1 => ended.push((task.clone(), Some(MessageEnd::Done))),
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
        let is_done = |result: &&String| {
            self.messages
                .iter()
                .any(|asked| result.contains(&asked.task.done()))
        };
        let cut: Vec<&String> = thread.results.iter().filter(|result| !is_done(result)).collect();
        let (stopped, broken): (Vec<&String>, Vec<&String>) =
            cut.iter().partition(|result| result.contains("Stopped at step"));
        // A reported failure is a valid outcome. Only a failing store may cause one.
        let is_failure =
            |broken: &&String| self.testbed.may_fail && broken.contains("I failed with an internal error");
        let (failed, broken): (Vec<&String>, Vec<&String>) = broken.into_iter().partition(is_failure);
        if let Some(broken) = broken.first() {
            return Err(format!(
                "a message was answered with neither its task nor a stop: {broken}"
            ));
        }
        if stopped.len() + failed.len() + thread.refusals.len() != open {
            return Err(format!(
                "{open} messages are without their task's answer, {} were stopped and {} refused",
                stopped.len(),
                thread.refusals.len()
            ));
        }
        let stops = self
            .commands
            .iter()
            .filter(|command| command.verb == CommandKind::Stop)
            .count();
        let never_begun = thread
            .refusals
            .iter()
            .filter(|refusal| refusal.contains("Stopped before it began"));
        if stopped.len() + never_begun.count() > stops {
            return Err("more messages were stopped than stops were requested".to_owned());
        }
        // A failed message keeps its first steps, like a stopped one.
        Ok(assignments(&ended, stopped.len() + failed.len()))
    }

    /// Returns the commands with their answers, in all ways that fit. An unacknowledged command may be lost.
    fn commands(&self, thread: &Thread) -> Result<Vec<Vec<AnsweredCommand>>, String> {
        let uncertain: Vec<usize> = (0..self.commands.len())
            .filter(|index| !self.commands[*index].acknowledged)
            .collect();
        let gone = self.commands.len().checked_sub(thread.answers.len());
        let Some(gone) = gone.filter(|gone| *gone <= uncertain.len()) else {
            let (commands, answers) = (self.commands.len(), thread.answers.len());
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
        let mut ways = Vec::new();
        for missing in subsets(&uncertain, gone) {
            let present: Vec<usize> = (0..self.commands.len())
                .filter(|index| !missing.contains(index))
                .collect();
            ways.extend(
                orders(&present, &uncertain)
                    .iter()
                    .map(|order| self.answered(thread, order)),
            );
        }
        Ok(ways)
    }

    /// Returns the commands in the order in which they were answered.
    fn answered(&self, thread: &Thread, order: &[usize]) -> Vec<AnsweredCommand> {
        let mut patches = thread.patches.iter();
        let mut most = 0;
        let answered = order.iter().zip(&thread.answers).map(|(index, answer)| {
            let command = &self.commands[*index];
            // A command answered later also took effect after the messages that came before the earlier commands.
            most = most.max(command.after.1);
            AnsweredCommand {
                verb: command.verb,
                patch: announces_patch(answer).then(|| patches.next().cloned()).flatten(),
                answer: answer.clone(),
                after: (command.after.0, most),
            }
        });
        answered.collect()
    }
}

/// Returns the orders in which commands may have been answered. An unacknowledged command ran at once, or it ran when a
/// restart found it or Slack sent it again, together with later commands.
fn orders(present: &[usize], uncertain: &[usize]) -> Vec<Vec<usize>> {
    let mut orders = vec![present.to_vec()];
    for late in uncertain.iter().filter(|index| present.contains(index)) {
        for order in orders.clone() {
            let Some(at) = order.iter().position(|index| index == late) else {
                continue;
            };
            for later in at + 1..order.len().min(at + 1 + LATER_MAX) {
                let mut order = order.clone();
                let moved = order.remove(at);
                order.insert(later, moved);
                orders.push(order);
            }
        }
    }
    orders
}

/// Returns all ways in which `stopped` of the messages without an outcome were stopped, and the others refused.
fn assignments(ended: &[(Task, Option<MessageEnd>)], stopped: usize) -> Vec<Vec<(Task, MessageEnd)>> {
    let open: Vec<usize> = (0..ended.len())
        .filter(|index| ended[*index].1.is_none())
        .collect();
    let ways = subsets(&open, stopped).into_iter().map(|stopped| {
        let ended = ended.iter().enumerate().map(|(index, (task, ended))| {
            let otherwise = if stopped.contains(&index) {
                MessageEnd::Stopped
            } else {
                MessageEnd::Refused
            };
            (task.clone(), ended.unwrap_or(otherwise))
        });
        ended.collect()
    });
    ways.collect()
}

/// Returns all subsets with `count` elements.
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

#[cfg(test)]
mod tests {
    use super::orders;

    #[test]
    fn only_what_was_not_acknowledged_may_be_answered_later() {
        assert_eq!(orders(&[0, 1, 2], &[]), [[0, 1, 2]]);
        assert_eq!(orders(&[0, 1, 2], &[1]), [[0, 1, 2], [0, 2, 1]]);
        assert_eq!(orders(&[0, 2], &[1]), [[0, 2]]);
        assert_eq!(orders(&[0, 1, 2], &[0]), [[0, 1, 2], [1, 0, 2], [1, 2, 0]]);
    }
}
