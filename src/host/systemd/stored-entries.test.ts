import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoredEntries } from './stored-entries.ts'
import type { Entry } from './stored-entries.ts'

const entry = (name: string): Entry => ({ name, inode: 7n, major: 5, minor: 2 })

test('entries that come and go change the count and the names', () => {
  const entries = new StoredEntries([entry('console-a')])
  entries.add([entry('console-b'), entry('console-c')])
  entries.remove(new Set(['console-a', 'console-x']))
  assert.equal(entries.count, 2)
  assert.deepEqual([...entries.names], ['console-b', 'console-c'])
  assert.ok(entries.some(({ name }) => name === 'console-c'))
})

test('a name that is stored twice counts twice, and goes at once', () => {
  const entries = new StoredEntries([entry('console-a'), entry('console-a')])
  assert.equal(entries.count, 2)
  assert.equal(entries.countOf(new Set(['console-a'])), 2)
  entries.remove(new Set(['console-a']))
  assert.equal(entries.count, 0)
  assert.ok(!entries.names.has('console-a'))
})
