/** The exit status of the real Firecracker in a unit of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exitInWords } from '../../src/core/monitor/exit-status.ts'
import { ConsoleHistory } from '../../src/host/pty/console-history.ts'
import { ConsoleMaster } from '../../src/host/pty/console-master.ts'
import { PRIVATE_SOCKET } from '../../src/host/systemd/bus.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'
import { firecracker, skipWithoutFirecracker } from './with-firecracker.ts'
import type { VmId } from '../../src/core/ids.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal

test(
  'Firecracker ends with status 156 when its console is closed',
  { skip: skipWithoutFirecracker },
  async (t) => {
    const bus = new SystemdBus({ log: silentLog, addresses: [PRIVATE_SOCKET] })
    const units = new SystemdUnits({ bus, log: silentLog, runDirectory: '/run/vmhostd-test' })
    const console = ConsoleMaster.open({ history: ConsoleHistory.inMemory(), log: silentLog })
    atEnd(t, () => bus.close())
    atEnd(t, () => console.close())
    atEnd(t, () => units.ensureStopped(id, never))
    const runtimeDirectory = `vmhostd-test/${id}`
    const command = [firecracker ?? '', '--api-sock', `/run/${runtimeDirectory}/api.sock`] as const
    await units.ensureStarted(id, unitSpecOf(id, { command, runtimeDirectory, ttyPath: console.path }), never)
    assert.equal((await units.inspect(id)).kind, 'active')
    console.close()
    const ended = await until(
      () => units.inspect(id),
      ({ kind }) => kind === 'failed',
    )
    assert.ok(ended.kind === 'failed')
    assert.equal(
      exitInWords(ended.result, ended.status),
      'exit-code, status 156: its console was closed (SIGHUP)',
    )
  },
)
