import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { isFault, terms } from '../contract/saved-states.contract.ts'
import { until } from '../contract/until.ts'
import { atFirstRead } from './file-calls.ts'
import { assertUnusable, publishedOn, savedOn, tidied, writeAt } from './saved-states-stage.ts'

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const never = new AbortController().signal

test('a changed byte anywhere in the memory, or a changed length, is detected', { skip }, async (t) => {
  const stage = await publishedOn(t)
  const memory = stage.file(id, 'memory')
  const whole = readFileSync(memory)
  // In the first hole, at both ends of data, in the hole after it, and in the last byte.
  for (const at of [0, MIB + 4096, 2 * MIB + 4095, 2 * MIB + 8192, whole.length - 1]) {
    writeAt(memory, at, Buffer.of((whole[at] ?? 0) ^ 0x80))
    await assert.rejects(stage.states.verify(id, never), isFault('saved_state_corrupt'), `byte ${at}`)
    writeAt(memory, at, Buffer.of(whole[at] ?? 0))
    await stage.states.verify(id, never)
  }
  for (const size of [whole.length - 1, 0, whole.length + 4096]) {
    truncateSync(memory, size)
    await assertUnusable(stage, 'saved_state_corrupt', new RegExp(`its memory has ${size} bytes`))
    await assert.rejects(stage.states.verify(id, never), isFault('saved_state_corrupt'), `size ${size}`)
  }
})

test(
  'a recent save is not read again before a wake, and an altered one is, whatever its times say',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const memory = stage.file(id, 'memory')
    const isRead = atFirstRead(() => {})
    await stage.states.verify(id, never)
    assert.equal(isRead(), false)
    const { atime, mtime } = statSync(memory)
    const byte = readFileSync(memory)[3 * MIB + 4711] ?? 0
    writeAt(memory, 3 * MIB + 4711, Buffer.of(byte ^ 1))
    utimesSync(memory, atime, mtime)
    await assert.rejects(stage.states.verify(id, never), isFault('saved_state_corrupt'))
    assert.equal(isRead(), true)
  },
)

test('a daemon that did not save the memory itself reads it', { skip }, async (t) => {
  const stage = await publishedOn(t)
  const again = stage.reopen()
  const isRead = atFirstRead(() => {})
  await again.verify(id, never)
  assert.equal(isRead(), true)
})

test('the space of a removed state is free even if a unit still has it bound', { skip }, async (t) => {
  const stage = await publishedOn(t)
  const bound = join(stage.pool.mountPoint, 'bound')
  writeFileSync(bound, '')
  await run(['mount', '--bind', stage.file(id, 'memory'), bound])
  try {
    await stage.states.remove(id)
    await until(
      () => statSync(bound).blocks,
      (blocks) => blocks === 0,
    )
    await tidied(stage)
  } finally {
    await run(['umount', bound])
  }
})

test(
  'a state that a former daemon removed is freed by the next, even if a unit still has it bound',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const bound = join(stage.pool.mountPoint, 'bound')
    writeFileSync(bound, '')
    await run(['mount', '--bind', stage.file(id, 'memory'), bound])
    try {
      // The state that the removal had reached when the former daemon ended.
      await rename(dirname(stage.file(id, 'memory')), join(stage.pool.directory, 'tmp', 'saved-before'))
      assert.ok(statSync(bound).blocks > 0)
      await stage.reopen().ensureDirectory(id)
      assert.equal(statSync(bound).blocks, 0)
      assert.deepEqual(readdirSync(join(stage.pool.directory, 'tmp')), [])
    } finally {
      await run(['umount', bound])
    }
  },
)

test('memory whose length changes during a read is damaged, or was not saved', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  const { states, userId } = stage
  await stage.makeDisk(id)
  await states.ensureDirectory(id)
  const { writing, published: memory } = states.paths(id)
  // One stretch of data, whose end is found before it is read.
  const write = (): void => {
    writeFileSync(writing, randomBytes(8 * MIB))
    chownSync(writing, userId, userId)
  }
  write()
  await states.publish(id, terms, never)
  const isCut = atFirstRead(() => truncateSync(memory, 0))
  // A pool that did not just read the memory reads it now.
  await assert.rejects(stage.reopen().verify(id, never), isFault('saved_state_corrupt'))
  assert.ok(isCut())
  await states.remove(id)
  write()
  const unfinished = join(dirname(dirname(memory)), 'saved.tmp', 'memory')
  const isCutToo = atFirstRead(() => truncateSync(unfinished, 0))
  await assert.rejects(states.publish(id, terms, never), isFault('save_failed'))
  assert.ok(isCutToo())
  await states.remove(id)
  write()
  const isGrown = atFirstRead(() => truncateSync(unfinished, 9 * MIB))
  await assert.rejects(states.publish(id, terms, never), isFault('save_failed'))
  assert.ok(isGrown())
})
