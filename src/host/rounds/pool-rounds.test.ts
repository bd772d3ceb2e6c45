import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import { GatedFile } from '../files/gated-file.ts'
import { accessPool } from '../pool/pool-access.ts'
import { markPool } from '../pool/pool-marker.ts'
import { PoolRounds } from './pool-rounds.ts'

const id = 'web-1' as VmId
const arrival = 'a-1' as ArrivalId
const never = new AbortController().signal

async function stage(t: TestContext) {
  const base = mkdtempSync(join(tmpdir(), 'vmh-rounds-'))
  t.after(() => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  const access = accessPool(directory, poolId)
  return { rounds: new PoolRounds(access), paths: access.paths }
}

test('an id that is not a plain name is refused, and nothing outside is read', async (t) => {
  const { rounds, paths } = await stage(t)
  const odd = '../saved' as ArrivalId
  const path = paths.round(id, odd, 1)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, 'secret')
  await assert.rejects(rounds.ensureRound({ id, arrival: odd, number: 1 }, never), /plain name/)
  await assert.rejects(
    Array.fromAsync(rounds.frames({ id, arrival: odd, number: 1 }, 0, never)),
    /plain name/,
  )
})

test('a round whose file cannot be closed leaves the file of the round before it closed', async (t) => {
  const { rounds, paths } = await stage(t)
  for (const number of [1, 2]) {
    const path = paths.round(id, arrival, number)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, '')
  }
  const opened = t.mock.method(GatedFile, 'open')
  const closes = t.mock.method(GatedFile.prototype, 'close')
  closes.mock.mockImplementationOnce(() => Promise.reject(new Error('EIO')))
  await assert.rejects(Array.fromAsync(rounds.frames({ id, arrival, number: 2 }, 0, never)))
  assert.equal(closes.mock.callCount(), 2)
  // The first was not closed.
  for (const { result } of opened.mock.calls) await (await result)?.close()
})
