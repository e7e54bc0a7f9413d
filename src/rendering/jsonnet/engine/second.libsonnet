// What the standard library of the second engine lacks or has in another way than go-jsonnet, and the functions that
// stand in the texts for the engines. Names that begin with `_drydock` are not told in traces.
local call(name) = std.native('drydock.' + name);
local base64 = call('base64');
local base64Decode = call('base64Decode');
local formatKeys = call('formatKeys');
local formatList = call('format');
local formatObject = call('formatObject');
local isObject = std.isObject;
local isString = std.isString;
local jsonEx = call('jsonEx');
local log = call('log');
local logOf = call('logOf');
local manifestIni = call('ini');
local max = call('max');
local min = call('min');
local parseYaml = call('parseYaml');
local pow = call('pow');
local python = call('python');
local pythonVars = call('pythonVars');
local round = call('round');
local text = call('text');
local tomlEx = call('tomlEx');
local trim = call('trim');
local xml = call('xml');

local string(value) = if isString(value) then value else text(value);
local format(str, vals) =
  if isObject(vals)
  then formatObject(str, {
    [key]: vals[key]
    for key in std.set(formatKeys(str))
    if std.objectHasAll(vals, key)
  })
  else formatList(str, vals);

{
  // What programs share that ask for nothing of their own.
  shared: std + self.std,
  std: {
    toString(a):: string(a),
    escapeStringJson(str_):: text(string(str_)),
    escapeStringPython(str):: text(string(str)),
    escapeStringBash(str_):: std.escapeStringBash(string(str_)),
    escapeStringDollars(str_):: std.escapeStringDollars(string(str_)),
    escapeStringXML(str_):: std.escapeStringXML(string(str_)),
    format(str, vals):: format(str, vals),
    mod(a, b):: if isString(a) then format(a, b) else std.mod(a, b),
    parseYaml(str):: parseYaml(str),
    manifestIni(ini):: manifestIni({
      [if std.objectHas(ini, 'main') then 'main']: ini.main,
      sections: ini.sections,
    }),
    manifestJson(value):: jsonEx(value, '    ', '\n', ': '),
    manifestJsonEx(value, indent, newline='\n', key_val_sep=': '):: jsonEx(value, indent, newline, key_val_sep),
    manifestJsonMinified(value):: jsonEx(value, '', '', ':'),
    manifestToml(value):: tomlEx(value, '  '),
    manifestTomlEx(value, indent):: tomlEx(value, indent),
    manifestPython(v):: python(v),
    manifestPythonVars(conf):: pythonVars(conf),
    manifestXmlJsonml(value):: xml(value),
    base64(input):: base64(input),
    base64Decode(str):: base64Decode(str),
    trim(str):: trim(str),
    round(x):: round(x),
    max(a, b):: max(a, b),
    min(a, b):: min(a, b),
    log(x):: log(x),
    log2(x):: logOf(2, x),
    log10(x):: logOf(10, x),
    pow(x, n):: pow(x, n),
  },
  _drydock_text(_drydock_value): string(_drydock_value),
  _drydock_plus(_drydock_left, _drydock_right):
    if isString(_drydock_left)
    then _drydock_left + string(_drydock_right)
    else if isString(_drydock_right)
    then text(_drydock_left) + _drydock_right
    else _drydock_left + _drydock_right,
  _drydock_modulo(_drydock_left, _drydock_right):
    if isString(_drydock_left)
    then format(_drydock_left, _drydock_right)
    else _drydock_left % _drydock_right,
}
