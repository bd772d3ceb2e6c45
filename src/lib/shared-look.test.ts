import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedLook } from './shared-look.ts'

/** Looks that a test ends one by one; `running` counts those under way. */
function manual() {
  const ends: { resolve: (value: string) => void; reject: (reason: Error) => void }[] = []
  const state = { begun: 0, running: 0, ends }
  const look = async (): Promise<string> => {
    state.begun += 1
    state.running += 1
    assert.equal(state.running, 1, 'two looks at the same time')
    const { promise, ...end } = Promise.withResolvers<string>()
    ends.push(end)
    try {
      return await promise
    } finally {
      state.running -= 1
    }
  }
  return Object.assign(state, { shared: new SharedLook(look) })
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('all calls during a look share the next one, which begins after them', async () => {
  const { shared, ends, ...rest } = manual()
  const first = shared.take()
  // This call comes when the first look has ended and the next has not begun.
  const between = first.then(() => shared.take())
  const later = Array.from({ length: 100 }, () => shared.take())
  assert.equal(ends.length, 1)
  ends[0]?.resolve('old')
  assert.equal(await first, 'old')
  await turn()
  assert.equal(ends.length, 2)
  ends[1]?.resolve('new')
  assert.deepEqual(new Set(await Promise.all([...later, between])), new Set(['new']))
  assert.equal(ends.length, 2)
  assert.equal(rest.running, 0)
})

test('a look that fails rejects the calls that share it, and none after them', async () => {
  const { shared, ends } = manual()
  const first = shared.take()
  const later = shared.take()
  ends[0]?.reject(new Error('broken'))
  await assert.rejects(first, /broken/)
  await turn()
  ends[1]?.resolve('repaired')
  assert.equal(await later, 'repaired')
  const fresh = shared.take()
  ends[2]?.resolve('again')
  assert.equal(await fresh, 'again')
})
