/** Real units, and shell commands for them to run. */
import type { TestContext } from 'node:test'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { ConsoleHistory } from '../../src/host/pty/console-history.ts'
import { ConsoleMaster } from '../../src/host/pty/console-master.ts'
import { PRIVATE_SOCKET } from '../../src/host/systemd/bus.ts'
import type { BusAddress } from '../../src/host/systemd/bus.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd, undoAll } from '../contract/at-end.ts'
import { other, web } from '../contract/units.contract.ts'
import { until } from '../contract/until.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'

export const never = new AbortController().signal
export const sh = async (...argv: [string, ...string[]]): Promise<string> => (await run(argv)).stdout.trim()

/** A shell command that runs until it reads its exit status. */
export const untilExit = 'read -r status; exit "$status"'

type RealStage = {
  readonly units: SystemdUnits
  readonly bus: SystemdBus
  readonly consoleOf: (id: VmId) => ConsoleMaster
  /** A unit with a shell command on a terminal of its own. */
  readonly shell: (id: VmId, command: string, changes?: Partial<UnitSpec>) => UnitSpec
  /** Returns the output of a unit on its terminal, once that is enough. */
  readonly said: (id: VmId, isEnough: (text: string) => boolean) => Promise<string>
}

export function stageOf(t: TestContext, addresses: readonly BusAddress[] = [PRIVATE_SOCKET]): RealStage {
  const bus = new SystemdBus({ log: silentLog, addresses })
  const units = new SystemdUnits({ bus, log: silentLog, runDirectory: '/run/vmhostd-test' })
  const consoles = new Map<VmId, ConsoleMaster>()
  atEnd(t, () => bus.close())
  atEnd(t, () => undoAll([...consoles.values()].map((console) => () => console.close())))
  for (const id of [web, other]) atEnd(t, () => units.ensureStopped(id, never))
  const consoleOf = (id: VmId): ConsoleMaster => {
    const found =
      consoles.get(id) ?? ConsoleMaster.open({ history: ConsoleHistory.inMemory(), log: silentLog })
    consoles.set(id, found)
    return found
  }
  return {
    units,
    bus,
    consoleOf,
    shell: (id, command, changes = {}) =>
      unitSpecOf(id, {
        command: ['/usr/bin/sh', '-c', command],
        ttyPath: consoleOf(id).path,
        runtimeDirectory: `vmhostd-test/${id}`,
        userId: (id === web ? 700_001 : 700_002) as UnitSpec['userId'],
        ...changes,
      }),
    said: (id, isEnough) =>
      until(() => Buffer.from(consoleOf(id).output.since(0).bytes).toString(), isEnough),
  }
}
