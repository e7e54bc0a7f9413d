//! Random plans, in which the running steps end in any order. The seed is fixed.

use super::*;
use crate::base::model::AgentBounds;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The maximum number of model calls of a run.
const CALLS_MAX: u32 = 12;
const CASES: u32 = 200;

/// A step of a random plan.
#[derive(Clone, Debug)]
struct StepSpec {
    kind: usize,
    on: usize,
    when: usize,
    /// True if its work fails.
    fails: bool,
}

fn step_spec() -> impl Strategy<Value = StepSpec> {
    (0_usize..3, 0_usize..4, 0_usize..8, any::<bool>()).prop_map(|(kind, on, when, fails)| StepSpec {
        kind,
        on,
        when,
        fails,
    })
}

/// Returns plans of up to five steps, some of which are groups, with the specs of all their steps.
fn plans() -> impl Strategy<Value = (RunPlan, Vec<StepSpec>)> {
    vec((step_spec(), vec(step_spec(), 0..4)), 1..6).prop_map(|tree| {
        let mut plan = RunPlan {
            pipeline: "p".to_owned(),
            steps: Vec::new(),
            budget: RunBudget {
                max_steps: CALLS_MAX,
                max_tokens: 0,
                max_cents: 0,
                timeout: Duration::from_secs(60),
            },
        };
        let mut specs = Vec::new();
        for (outer, inner) in tree {
            let index = plan.steps.len();
            plan.steps.push(planned_step(&outer, index, None, &inner));
            specs.push(outer);
            for spec in inner {
                plan.steps
                    .push(planned_step(&spec, plan.steps.len(), Some(index), &[]));
                specs.push(spec);
            }
        }
        (plan, specs)
    })
}

fn planned_step(spec: &StepSpec, index: usize, group: Option<usize>, inner: &[StepSpec]) -> PlannedStep {
    let before = group.unwrap_or(index);
    let when = match spec.when {
        0 => json!("false"),
        1 => json!("event.missing == 1"),
        2 | 3 if before > 0 => json!(format!("steps.s{}.status == 'success'", spec.kind % before)),
        4 => json!("event.action == 'opened'"),
        _ => Value::Null,
    };
    let on = ["success", "success", "failure", "always"][spec.on];
    let work = match spec.kind {
        _ if !inner.is_empty() => json!("parallel"),
        0 => {
            json!({ "ask": { "to": { "person": "Ann" }, "question": "?", "choices": ["a", "b"], "deadline": "1h" } })
        }
        1 if before > 0 => {
            let text = format!("${{steps.s{}.status}}", before - 1);
            json!({ "reply": { "to": "channel:team:C1", "text": text } })
        }
        _ => json!({ "agent": { "request": "Look.", "params": {}, "bounds": bounds() } }),
    };
    PlannedStep {
        name: format!("s{index}"),
        group,
        condition: serde_json::from_value(json!({ "when": when, "on": on })).unwrap(),
        work: serde_json::from_value(work).unwrap(),
    }
}

fn bounds() -> AgentBounds {
    AgentBounds {
        model: "a/b".to_owned(),
        base_url: None,
        max_steps: 5,
        max_tokens: 0,
        max_cents: 0,
        timeout: Duration::from_secs(60),
        truncate_head: 1,
        truncate_tail: 1,
        tools: BTreeSet::new(),
        may_edit: false,
        environments: None,
    }
}

/// A run that is driven to its end.
struct Drive<'a> {
    plan: &'a RunPlan,
    specs: &'a [StepSpec],
    inputs: RunInputs,
    state: RunState,
    /// The model calls that each begun step may make; none for other work.
    begun: BTreeMap<usize, u32>,
}

impl<'a> Drive<'a> {
    fn new(plan: &'a RunPlan, specs: &'a [StepSpec]) -> Self {
        Self {
            plan,
            specs,
            inputs: RunInputs {
                event: json!({ "action": "opened" }),
                ..RunInputs::default()
            },
            state: RunState::new(plan),
            begun: BTreeMap::new(),
        }
    }

    /// Applies the next moves, and checks them. Returns the end of the run.
    fn go(&mut self) -> Option<RunStatus> {
        let moves = next_moves(self.plan, &self.inputs, &self.state);
        for (step, end) in &moves.end {
            assert!(self.state.steps[*step].end().is_none(), "{step} ends twice");
            assert!(end.status.is_end());
        }
        let ended: BTreeSet<usize> = moves.end.iter().map(|(step, _)| *step).collect();
        assert_eq!(ended.len(), moves.end.len());
        moves.apply(&mut self.state);
        for step in &moves.begin {
            assert!(!ended.contains(step));
            assert_eq!(self.state.steps[*step].status(), StepStatus::Running);
            // Every step before it has ended, and so have those of every group before its own.
            let before = self.plan.steps[*step].group.unwrap_or(*step);
            assert!(
                self.state.steps[..before]
                    .iter()
                    .all(|state| state.end().is_some())
            );
            let calls = match resolved_work(self.plan, &self.inputs, &self.state, *step).unwrap() {
                ResolvedWork::Agent { bounds, .. } => bounds.max_steps,
                _ => 0,
            };
            assert_eq!(self.begun.insert(*step, calls), None, "{step} begins twice");
        }
        // The plan and the state are stored between two moves.
        let stored = serde_json::to_string(&self.state).unwrap();
        self.state = serde_json::from_str(&stored).unwrap();
        let again = next_moves(self.plan, &self.inputs, &self.state);
        assert!(again.begin.is_empty() && again.end.is_empty(), "{again:?}");
        assert_eq!(again.finish, moves.finish);
        moves.finish
    }

    /// Returns the steps whose work is under way.
    fn running(&self) -> Vec<usize> {
        let steps = self.plan.steps.iter().zip(&self.state.steps).enumerate();
        let running = steps.filter(|(_, (planned, state))| {
            **state == StepState::Running && planned.work != PlannedWork::Parallel
        });
        running.map(|(step, _)| step).collect()
    }

    /// Ends one of the running steps, which used all that it may.
    fn end_one(&mut self, choice: usize) {
        let running = self.running();
        assert!(
            !running.is_empty(),
            "nothing runs, and the run has not ended: {:?}",
            self.state
        );
        let step = running[choice % running.len()];
        let mut end = used(self.begun[&step], 0, 0);
        if self.specs[step].fails {
            end.status = StepStatus::Failed;
        }
        self.state.end(step, end);
    }

    fn run(&mut self, order: &[usize]) -> RunStatus {
        for round in 0..=self.plan.steps.len() {
            if let Some(status) = self.go() {
                return status;
            }
            self.end_one(order[round % order.len()]);
        }
        panic!("the run does not end: {:?}", self.state);
    }
}

fn runner() -> TestRunner {
    TestRunner::new(Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..Config::default()
    })
}

#[test]
fn a_run_ends_with_the_same_state_in_whichever_order_its_steps_end() {
    let strategy = (plans(), vec(0_usize..16, 1..8), vec(0_usize..16, 1..8));
    let check = |((plan, specs), one, other): ((RunPlan, Vec<StepSpec>), Vec<usize>, Vec<usize>)| {
        let stored = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(&serde_json::from_str::<RunPlan>(&stored).unwrap(), &plan);
        let mut first = Drive::new(&plan, &specs);
        let status = first.run(&one);
        let mut second = Drive::new(&plan, &specs);
        prop_assert_eq!(second.run(&other), status);
        prop_assert_eq!(&first.state, &second.state);
        let ends: Vec<StepStatus> = first.state.steps.iter().map(StepState::status).collect();
        let expected = match ends.contains(&StepStatus::Failed) {
            true => RunStatus::Failed,
            false => RunStatus::Succeeded,
        };
        prop_assert_eq!(status, expected);
        prop_assert!(
            ends.iter()
                .all(|end| end.is_end() && *end != StepStatus::Cancelled)
        );
        let calls: u32 = first
            .state
            .steps
            .iter()
            .filter_map(StepState::end)
            .map(|end| end.spent.calls)
            .sum();
        prop_assert!(calls <= CALLS_MAX, "{} calls", calls);
        Ok(())
    };
    runner().run(&strategy, check).unwrap();
}

#[test]
fn a_cancelled_run_begins_nothing_and_ends() {
    let strategy = (plans(), vec(0_usize..16, 1..8), 0_usize..8);
    let check = |((plan, specs), order, rounds): ((RunPlan, Vec<StepSpec>), Vec<usize>, usize)| {
        let mut drive = Drive::new(&plan, &specs);
        let mut status = drive.go();
        for round in 0..rounds {
            if status.is_some() {
                return Ok(());
            }
            drive.end_one(order[round % order.len()]);
            status = drive.go();
        }
        if status.is_some() {
            return Ok(());
        }
        // One step is cancelled by a person, and the others go on to their end.
        let begun = drive.begun.len();
        let step = drive.running()[0];
        drive.state.end(step, StepEnd::cancelled("stopped"));
        let mut all_at_once = drive.state.clone();
        prop_assert_eq!(drive.run(&order), RunStatus::Cancelled);
        prop_assert_eq!(drive.begun.len(), begun);
        // Or all of them are at once.
        all_at_once.cancel("the run was cancelled");
        let moves = next_moves(&plan, &drive.inputs, &all_at_once);
        let expected = RunMoves {
            finish: Some(RunStatus::Cancelled),
            ..RunMoves::default()
        };
        prop_assert_eq!(moves, expected);
        Ok(())
    };
    runner().run(&strategy, check).unwrap();
}

#[test]
fn a_run_that_goes_on_from_some_ended_steps_begins_none_of_them_and_ends() {
    let strategy = (plans(), vec(0_usize..16, 1..8), 0_usize..24);
    let check = |((plan, specs), order, kept): ((RunPlan, Vec<StepSpec>), Vec<usize>, usize)| {
        let mut first = Drive::new(&plan, &specs);
        first.run(&order);
        // As in a retry, the first steps keep their ends and the others wait.
        let kept = kept % (plan.steps.len() + 1);
        let mut second = Drive::new(&plan, &specs);
        second.state.steps[..kept].clone_from_slice(&first.state.steps[..kept]);
        // A group of which only some steps are kept has not ended.
        let group = plan.steps.get(kept).and_then(|step| step.group);
        if let Some(group) = group {
            second.state.steps[group] = StepState::Waiting;
        }
        second.run(&order);
        prop_assert!(
            second
                .begun
                .keys()
                .all(|step| *step >= kept || Some(*step) == group)
        );
        // What was not kept happens again in the same way.
        prop_assert_eq!(&first.state, &second.state);
        Ok(())
    };
    runner().run(&strategy, check).unwrap();
}
