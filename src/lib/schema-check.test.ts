import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Type } from 'typebox'
import { nearest } from './text.ts'
import { checkerFor } from './schema-check.ts'

const closed = { additionalProperties: false } as const
const schema = Type.Object(
  {
    cores: Type.Integer({ minimum: 1, maximum: 32 }),
    mode: Type.Enum(['on', 'off']),
    name: Type.Optional(Type.String({ pattern: '^[a-z]+$', maxLength: 5 })),
    'a/b~c': Type.Optional(Type.Object({ list: Type.Array(Type.String(), { maxItems: 2 }) }, closed)),
  },
  closed,
)
const check = checkerFor(schema, new Map([['^[a-z]+$', 'must be lower-case letters']]))
const good = { cores: 1, mode: 'on' }

test('a value that fits has no complaints', () => {
  assert.deepEqual(check({ ...good, name: 'abc', 'a/b~c': { list: [] } }), [])
})

test('a schema is not read before the first value, and then once', () => {
  let reads = 0
  const text = Type.String()
  const watched = new Proxy(text, {
    get: (target, name): unknown => {
      reads += 1
      return Reflect.get(target, name)
    },
  })
  const checkText = checkerFor(watched, new Map())
  assert.equal(reads, 0)
  assert.deepEqual(checkText('one'), [])
  const compiled = reads
  assert.notEqual(compiled, 0)
  assert.deepEqual(checkText('two'), [])
  assert.equal(reads, compiled)
})

test('a string that is far too long is reported alone, before any pattern is tested for a reason', () => {
  const far = [{ pointer: '/name', code: 'wrong_length', detail: 'must have at most 5 characters' }]
  assert.deepEqual(check({ cores: 33, name: 'a'.repeat(11) }), far)
  // In this time grows with the square of the length: 100,000 words would take minutes.
  const keys = Type.Array(Type.String({ pattern: '^([a-z ]+ )?b( [a-z ]*)?$', maxLength: 9 }))
  const checkKeys = checkerFor(keys, new Map())
  assert.deepEqual(checkKeys(Array.from({ length: 9 }, () => `${'b '.repeat(100_000)}!`)).length, 8)
  let nested: unknown[] = []
  for (let depth = 0; depth < 100_000; depth++) nested = [nested]
  assert.notDeepEqual(check({ ...good, cores: nested }), [])
})

const cases: readonly (readonly [unknown, string, string, string])[] = [
  [null, '', 'wrong_type', 'must be an object'],
  [[], '', 'wrong_type', 'must be an object'],
  [{ mode: 'on' }, '/cores', 'missing', 'is missing'],
  [{ ...good, cores: 33 }, '/cores', 'out_of_range', 'must be between 1 and 32'],
  [{ ...good, cores: 1.5 }, '/cores', 'wrong_type', 'must be a whole number'],
  [{ ...good, cores: '1' }, '/cores', 'wrong_type', 'must be a whole number'],
  [{ ...good, mode: 'ON' }, '/mode', 'not_allowed', 'must be one of on, off'],
  [{ ...good, name: 'a-b' }, '/name', 'malformed', 'must be lower-case letters'],
  [{ ...good, name: 'abcdef' }, '/name', 'wrong_length', 'must have at most 5 characters'],
  [{ ...good, nam: 'a' }, '/nam', 'unknown_member', 'is not known here; did you mean name?'],
  [{ ...good, 'q/~': 1 }, '/q~1~0', 'unknown_member', 'is not known here'],
  [{ ...good, 'q~1': 1 }, '/q~01', 'unknown_member', 'is not known here'],
  [{ ...good, 'a/b~c': {} }, '/a~1b~0c/list', 'missing', 'is missing'],
  [{ ...good, 'a/b~c': { list: [1] } }, '/a~1b~0c/list/0', 'wrong_type', 'must be a string'],
  [
    { ...good, 'a/b~c': { list: ['', '', ''] } },
    '/a~1b~0c/list',
    'wrong_length',
    'must have at most 2 items',
  ],
]
for (const [value, pointer, code, detail] of cases) {
  test(`${JSON.stringify(value)}: ${pointer} ${detail}`, () => {
    assert.deepEqual(check(value), [{ pointer, code, detail }])
  })
}

test('a name that is not allowed is one complaint, at that name', () => {
  const named = checkerFor(
    Type.Unsafe({ type: 'object', propertyNames: { type: 'string', pattern: '^[a-z]+$' } }),
    new Map([['^[a-z]+$', 'must be lower-case letters']]),
  )
  assert.deepEqual(named({ 'A b': 1, ok: 2 }), [
    { pointer: '/A b', code: 'malformed', detail: 'must be lower-case letters' },
  ])
})

test('several complaints come at once, and a flood of them is cut', () => {
  assert.equal(check({ cores: 0, mode: 'x' }).length, 2)
  const flood = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, 1]))
  const complaints = check({ ...good, ...flood })
  assert.ok(complaints.length > 0 && complaints.length <= 8)
})

test('a long unknown name is cut, and a value is never repeated', () => {
  const [complaint] = check({ ...good, ['x'.repeat(1000)]: 1 })
  assert.ok(complaint !== undefined && complaint.pointer.length < 70)
  assert.ok(!JSON.stringify(check({ ...good, mode: 'CANARY' })).includes('CANARY'))
})

test('a name with the escapes of a pointer in it is compared and shown as it was sent', () => {
  const checkName = checkerFor(Type.Object({ 'a/~1bc': Type.String({ maxLength: 1 }) }, closed), new Map())
  const long = checkName({ 'a/~1bc': 'abc' })
  assert.deepEqual(
    long.map(({ pointer }) => pointer),
    ['/a~1~01bc'],
  )
  const [typo] = checkName({ 'a/~1bc': '', 'a/~1b': 1 })
  assert.equal(typo?.detail, 'is not known here; did you mean a/~1bc?')
})

test('the nearest name is suggested only for a slip', () => {
  const names = ['memory_mib', 'cpu_millicores', 'port']
  assert.equal(nearest('memory_mb', names), 'memory_mib')
  assert.equal(nearest('prot', names), 'port')
  assert.equal(nearest('pot', names), 'port')
  assert.equal(nearest('colour', names), undefined)
})

test('a value that may be null has only the complaints of its other form', () => {
  const point = Type.Object({ x: Type.Integer({ maximum: 9 }) }, closed)
  const checkPoint = checkerFor(Type.Object({ at: Type.Union([point, Type.Null()]) }, closed), new Map())
  assert.deepEqual(checkPoint({ at: null }), [])
  for (const [at, pointer, code, detail] of [
    [{ x: 10 }, '/at/x', 'out_of_range', 'must be at most 9'],
    [{}, '/at/x', 'missing', 'is missing'],
    [{ x: 1, colour: 1 }, '/at/colour', 'unknown_member', 'is not known here'],
    [5, '/at', 'wrong_type', 'must be an object or null'],
  ])
    assert.deepEqual(checkPoint({ at }), [{ pointer, code, detail }])
})

test('too many members of an object are a wrong length', () => {
  const few = Type.Unsafe({ type: 'object', additionalProperties: { type: 'string' }, maxProperties: 2 })
  const detail = 'must have at most 2 members'
  assert.deepEqual(checkerFor(few, new Map())({ a: '', b: '', c: '' }), [
    { pointer: '', code: 'wrong_length', detail },
  ])
})
