import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../../log/log.ts'
import { TapTraffic } from './tap-traffic.ts'
import { TrafficProgram } from './traffic-program.ts'
import type { DeviceName, UserId } from '../../core/ids.ts'

test('forgetting a guest loads no program if none was ever loaded', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-bpf-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const object = (): never => assert.fail('it is loaded')
  const traffic = new TapTraffic({ program: new TrafficProgram({ object, directory }), log: silentLog })
  await traffic.remove({ device: 'vmt600000' as DeviceName, userId: 600_000 as UserId })
  assert.deepEqual(readdirSync(directory), [])
})
