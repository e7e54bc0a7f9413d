{
  T: { string: 'string', boolean: 'boolean', integer: 'integer', array: 'array', object: 'object' },
  pkg(name, url, help):: { name: name, url: url, help: help },
  fn(help, args=[]):: { 'function': { help: help, args: args } },
  obj(help, fields={}):: { object: { help: help, fields: fields } },
  arg(name, type, default=null):: { name: name, type: type, default: default },
}
