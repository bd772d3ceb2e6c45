import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fakes/fake-clock.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { reportAdoption } from './adoption-report.ts'
import type { LogLine } from '../../test/recording-log.ts'
import type { VmId } from '../core/ids.ts'
import type { AdoptionOptions } from './adoption-report.ts'

function stage(changes: Partial<AdoptionOptions> = {}) {
  const { log, lines } = recordingLog()
  const clock = new FakeClock()
  const ending = new AbortController()
  const options: AdoptionOptions = {
    adopted: 2,
    check: async () => ({ available: true }),
    census: async () => ({ runningUnits: 2, protected: 2, unprotected: [] }),
    clock,
    log,
    ...changes,
  }
  return { lines, clock, ending, report: () => reportAdoption(options, ending.signal) }
}

async function reported(changes: Partial<AdoptionOptions>): Promise<readonly LogLine[]> {
  const { report, lines } = stage(changes)
  await report()
  return lines
}

test('a start that took over everything is one line', async () => {
  assert.deepEqual(await reported({}), [
    {
      level: 'info',
      message: 'consoles adopted',
      descriptor_store_available: true,
      adopted_console_count: 2,
      running_unit_count: 2,
      inherited_console_count: 2,
    },
  ])
})

test('the master of a VM that does not run now makes the two counts no different', async () => {
  const [line] = await reported({ adopted: 3 })
  assert.equal(line?.['adopted_console_count'], line?.['running_unit_count'])
  assert.equal(line?.['inherited_console_count'], 3)
})

test('running VMs whose console is not stored are named, with what to do', async () => {
  const unprotected = ['old-1', 'old-2'] as VmId[]
  const [first, line] = await reported({
    census: async () => ({ runningUnits: 4, protected: 2, unprotected }),
  })
  assert.notEqual(first?.['adopted_console_count'], first?.['running_unit_count'])
  assert.equal(line?.level, 'warn')
  assert.deepEqual(line['vm_ids'], ['old-1', 'old-2'])
  assert.equal(line['remedy'], 'stop each of them and start it again, through the API')
})

test('a store that keeps nothing is an error, with what to do', async () => {
  const check = { available: false, because: 'it is off', remedy: 'switch it on' } as const
  const [line] = await reported({ check: async () => check })
  assert.equal(line?.level, 'error')
  assert.equal(line['descriptor_store_available'], false)
  assert.equal(line['because'], 'it is off')
  assert.equal(line['remedy'], 'switch it on')
})

/** Runs a start during which systemd is silent for two looks. */
async function silentStart() {
  const silent = new HostFault('systemd_unavailable', 'asking systemd for its units')
  let looks = 0
  const staged = stage({
    census: async () => {
      looks += 1
      if (looks <= 2) throw silent
      return { runningUnits: 2, protected: 2, unprotected: [] }
    },
  })
  await staged.report()
  const recheck = async (): Promise<void> => {
    staged.clock.advance(limits.adoptionRecheckMs)
    await new Promise(setImmediate)
  }
  return { ...staged, recheck, looks: () => looks, silent }
}

test('when systemd does not answer, the report has what is known, and a second one follows once it does', async () => {
  const { lines, recheck, silent, clock } = await silentStart()
  const known = { descriptor_store_available: false, adopted_console_count: 2 }
  const message = 'descriptor store not checked'
  assert.deepEqual([...lines], [{ level: 'error', message, ...known, error: silent }])
  await recheck()
  assert.equal(lines.length, 1)
  await recheck()
  assert.equal(lines.length, 2)
  assert.equal(lines[1]?.['descriptor_store_available'], true)
  assert.equal(lines[1]?.['adopted_console_count'], lines[1]?.['running_unit_count'])
  assert.equal(clock.nextMs(), undefined)
})

test('a daemon that stops does not look again', async () => {
  const { ending, clock, recheck, looks } = await silentStart()
  ending.abort()
  assert.equal(clock.nextMs(), undefined)
  await recheck()
  assert.equal(looks(), 1)
})

test('a daemon that stops during a look sets no further timer', async () => {
  const silent = new HostFault('systemd_unavailable', 'asking systemd for its units')
  const pending: ((fault: HostFault) => void)[] = []
  const { report, clock, ending } = stage({
    census: () => new Promise((_resolve, reject) => pending.push(reject)),
  })
  const first = report()
  pending.shift()?.(silent)
  await first
  clock.advance(limits.adoptionRecheckMs)
  ending.abort()
  pending.shift()?.(silent)
  await new Promise(setImmediate)
  assert.equal(clock.nextMs(), undefined)
})
