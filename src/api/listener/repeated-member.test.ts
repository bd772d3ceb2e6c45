import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { repeatedMember } from './repeated-member.ts'

const repeated: readonly (readonly [text: string, pointer: string])[] = [
  ['{"state":"running","state":"stopped"}', '/state'],
  ['{"state" : 1 ,\n\t"state"\r\n: 1}', '/state'],
  [String.raw`{"state":1,"\u0073tate":2}`, '/state'],
  [String.raw`{"a\"b":1,"a\u0022b":2}`, '/a"b'],
  [String.raw`{"\\":1,"\u005c":2}`, '/\\'],
  ['{"a":{"b":1,"c":{}},"d":[],"a":2}', '/a'],
  ['{"a":{"b":1},"c":{"b":1,"b":2}}', '/c/b'],
  ['{"a":[1,[2,3],{"b":1},{"b":[],"b":{}}]}', '/a/3/b'],
  ['[{},{"":1,"":2}]', '/1/'],
  ['{"a/b~":{"x":1,"x":1}}', '/a~1b~0/x'],
  ['{"__proto__":1,"__proto__":2}', '/__proto__'],
  ['{"1":0,"1":0}', '/1'],
]

test('a member that its object has already is found, however its name is written', () => {
  for (const [text, pointer] of repeated) {
    assert.doesNotThrow(() => JSON.parse(text), text)
    assert.equal(repeatedMember(text), pointer, text)
  }
})

test('equal names in different objects, and equal values, are no repetition', () => {
  for (const text of [
    '{}',
    '[]',
    '"a"',
    '1',
    '{"a":"a","b":"a"}',
    '{"a":{"a":{"a":1}}}',
    '[{"a":1},{"a":1}]',
    '["a","a"]',
    '{"a":["b","b"],"b":1}',
    '{"a":1,"A":1}',
    '{"a":"{\\"a\\":1}","b":"]}"}',
    '{"a":"\\\\","b":"\\\\\\"","c":":"}',
    '{"toString":1,"constructor":1}',
  ]) {
    assert.doesNotThrow(() => JSON.parse(text), text)
    assert.equal(repeatedMember(text), undefined, text)
  }
})

test('the time rises with the length alone, for escapes, depth and many names', () => {
  const texts = [
    (size: number) => JSON.stringify({ a: '\\"'.repeat(size) }),
    (size: number) => `{"a":"${'\\\\'.repeat(size)}","b":1}`,
    (size: number) => '['.repeat(size) + ']'.repeat(size),
    (size: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}`, n]))),
    (size: number) => `{"a"${' '.repeat(size)}:1}`,
  ]
  // One that rises with the square would take minutes.
  for (const text of texts) assert.equal(repeatedMember(text(200_000)), undefined)
})

test('a pointer into a deep body is cut', () => {
  const depth = 100_000
  const text = `${'['.repeat(depth)}{"a":1,"a":1}${']'.repeat(depth)}`
  assert.equal(repeatedMember(text), `${'/0'.repeat(limits.pointerNamesMax)}/…`)
})
