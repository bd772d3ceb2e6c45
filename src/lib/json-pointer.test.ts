import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memberPointer, unescapedName } from './json-pointer.ts'

test('a name of any characters is one part of a pointer, and comes back from it', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['memory_mib', '/memory_mib'],
    ['a/b~c', '/a~1b~0c'],
    ['~1', '/~01'],
    ['', '/'],
  ]
  for (const [name, pointer] of cases) {
    assert.equal(memberPointer('', name), pointer)
    assert.equal(unescapedName(pointer.slice(1)), name)
  }
  assert.equal(memberPointer('/labels', 'a/b'), '/labels/a~1b')
})
