# Evaluates files in a process of its own: the engine and the base directory are arguments, the files come
# as JSON on standard input. Answers with the text of each value and the seconds of every round.
import json, sys, time

engine, root, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])


def evaluate(entry, environment):
    directory = entry.rsplit("/", 1)[0]
    # go-jsonnet searches from the end of the list.
    jpath = [f"{root}/{path}" for path in ("vendor", f"{directory}/vendor", "lib", directory)]
    codes = {"tanka.dev/environment": environment}
    path = f"{root}/{entry}"
    if engine == "gojsonnet":
        import _gojsonnet
        return lambda: _gojsonnet.evaluate_file(path, jpathdir=jpath, ext_codes=codes, max_stack=500)
    import rjsonnet
    return lambda: rjsonnet.evaluate_file(path, jpathdir=jpath, ext_codes=codes, max_stack=500)


answers = []
for entry, environment in json.load(sys.stdin):
    run = evaluate(entry, environment)
    seconds, value = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        value = run()
        seconds.append(time.perf_counter() - started)
    answers.append({"value": value, "seconds": seconds})
json.dump(answers, sys.stdout)
