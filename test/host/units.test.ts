import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, writeFileSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { hasSession } from '../../src/host/pty/open-pty.ts'
import { PRIVATE_SOCKET, SYSTEM_BUS } from '../../src/host/systemd/bus.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { atEnd } from '../contract/at-end.ts'
import { unitsContract, web } from '../contract/units.contract.ts'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'
import { never, sh, stageOf, untilExit } from './units-stage.ts'

/** Lists the records of the user of the first VM. */
const userFiles = (): string[] => readdirSync('/run/userdb').filter((name) => /web-1|700001/.test(name))

/** Lists the VMs with a root for their unit. */
const rootsLeft = (): string[] => readdirSync('/run/vmhostd-test/roots')

/** Starts a foreign process in the control group of a unit. Makes the group again if systemd has removed it. */
async function leaveProcess(t: TestContext, id: VmId): Promise<number> {
  const group = `/sys/fs/cgroup/vmhost.slice/vmhost-${id}.service`
  mkdirSync(group, { recursive: true })
  const child = spawn('/usr/bin/sleep', ['infinity'], { stdio: 'ignore' })
  atEnd(t, () => child.kill('SIGKILL'))
  await once(child, 'spawn')
  writeFileSync(`${group}/cgroup.procs`, String(child.pid))
  return child.pid ?? 0
}

for (const [name, address] of [
  ['systemd units', PRIVATE_SOCKET],
  ['systemd units over the system bus', SYSTEM_BUS],
] as const) {
  unitsContract(
    name,
    (t) => {
      const stage = stageOf(t, [address])
      return {
        units: stage.units,
        spec: (id) => stage.shell(id, untilExit),
        missing: (spec) => ({ ...spec, command: ['/usr/bin/vmhostd-no-such-program'] }),
        exit: (id, status) => void writeSync(stage.consoleOf(id).fd, `${status}\n`),
        leave: (id) => leaveProcess(t, id),
        lives: (pid) => existsSync(`/proc/${pid}/exe`),
      }
    },
    { skip },
  )
}

const property = async (id: VmId, ...names: string[]): Promise<Record<string, string>> => {
  const lines = await sh(
    'systemctl',
    'show',
    `vmhost-${id}.service`,
    ...names.map((name) => `--property=${name}`),
  )
  return Object.fromEntries(
    lines.split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  )
}

test('a service can be moved to its present control group, and stays there', { skip }, async () => {
  const script = `
    import { readFileSync } from 'node:fs'
    import { EarlyMove } from '${import.meta.resolve('../../src/host/systemd/control-groups.ts')}'
    const group = () => readFileSync('/proc/self/cgroup', 'utf8')
    const before = group()
    console.log(await new EarlyMove().make(), before === group())`
  const said = await sh(
    'systemd-run',
    '--quiet',
    '--pipe',
    process.execPath,
    '--input-type=module',
    '--eval',
    script,
  )
  assert.equal(said, 'true true')
})

test('a unit has its runtime files from its start to its end', { skip }, async (t) => {
  const { units, shell, said } = stageOf(t)
  const directory = '/run/vmhostd-test/web-1'
  const command = `cat ${directory}/config.json; stat -c '%a %u %n' ${directory} ${directory}/*; echo end; ${untilExit}`
  for (const content of ['first', 'second']) {
    const spec = shell(web, command, { runtimeFiles: [{ name: 'config.json', content: `${content}\n` }] })
    await units.ensureStarted(web, spec, never)
    const text = await said(web, (all) => all.includes(content) && all.endsWith('end\n'))
    const modes = `700 700001 ${directory}\n400 700001 ${directory}/config.json\n`
    assert.ok(text.endsWith(`${content}\n${modes}end\n`), text)
    writeFileSync(`${directory}/of-the-running-unit`, '')
    await units.ensureStarted(web, spec, never)
    assert.ok(existsSync(`${directory}/of-the-running-unit`), 'a start again leaves a running unit alone')
    await units.ensureStopped(web, never)
    assert.ok(!existsSync(directory))
  }
})

test('a unit that somebody else restarts is seen with its new process', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  await units.ensureStarted(web, shell(web, 'exec sleep infinity'), never)
  const before = await units.inspect(web)
  await sh('systemctl', 'restart', `vmhost-${web}.service`)
  const after = await units.inspect(web)
  assert.ok(before.kind === 'active' && after.kind === 'active')
  assert.notEqual(after.mainPid, before.mainPid)
  assert.ok(after.startedAtMs > before.startedAtMs)
  assert.deepEqual(after.mark, before.mark)
  assert.deepEqual(await units.inspect(web), after)
})

test('a unit that ends after it was listed is seen as ended', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  await units.ensureStarted(web, shell(web, 'exec sleep infinity'), never)
  // Twice, because signals of the start may come after the first answer.
  for (const _ of [1, 2]) assert.deepEqual(await units.active(), [web])
  const { promise: changed, resolve } = Promise.withResolvers<void>()
  units.watch((id) => {
    if (id === web) resolve()
  })
  await sh('systemctl', 'kill', '--signal=KILL', `vmhost-${web}.service`)
  await changed
  assert.notEqual((await units.inspect(web)).kind, 'active')
})

test('a unit has the bounds of its spec', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  await units.ensureStarted(web, shell(web, untilExit), never)
  const bounds = {
    CPUQuotaPerSecUSec: '1.500000s',
    MemoryMax: String(256 * 1024 * 1024),
    MemorySwapMax: String(256 * 1024 * 1024),
    TasksMax: '16',
    LimitNOFILE: '64',
    LimitCORE: '0',
    Slice: 'vmhost.slice',
    KillSignal: '9',
    Restart: 'no',
  }
  assert.deepEqual(await property(web, ...Object.keys(bounds)), bounds)
})

test('the console is the controlling terminal, for one run after the other', { skip }, async (t) => {
  const { units, shell, said, consoleOf } = stageOf(t)
  for (const round of [1, 2]) {
    await units.ensureStarted(web, shell(web, `echo ${round}; ${untilExit}`), never)
    await said(web, (text) => text.endsWith(`${round}\n`))
    assert.ok(hasSession(consoleOf(web).fd))
    await units.ensureStopped(web, never)
    assert.ok(!hasSession(consoleOf(web).fd))
  }
})

test(
  'error output of a program is in the journal, under its VM, and not on the console',
  { skip },
  async (t) => {
    const { units, shell, said } = stageOf(t)
    const complaint = `no such disk (${process.pid})`
    await units.ensureStarted(web, shell(web, `echo '${complaint}' >&2; echo said; ${untilExit}`), never)
    assert.equal(await said(web, (text) => text.endsWith('said\n')), 'said\n')
    await until(
      () => sh('journalctl', '--output=cat', 'VM_ID=web-1'),
      (text) => text.includes(complaint),
    )
  },
)

test(
  'a stop ends every process of the unit, and removes its run directory, its root and its user',
  { skip },
  async (t) => {
    const { units, shell, said } = stageOf(t)
    const { runtimeDirectory } = shell(web, '')
    const command = `trap '' TERM HUP INT; (sleep 1000 & echo $!; wait) & ${untilExit}`
    await units.ensureStarted(web, shell(web, command), never)
    const child = Number(await said(web, (text) => text.endsWith('\n')))
    assert.ok(existsSync(`/run/${runtimeDirectory}`) && existsSync('/run/userdb/700001.user'))
    assert.equal(await sh('stat', '--format=%U', `/run/${runtimeDirectory}`), 'vmhost-web-1')
    assert.ok(existsSync(`/proc/${child}`))
    await units.ensureStopped(web, never)
    assert.ok(!existsSync(`/proc/${child}`))
    assert.ok(!existsSync(`/run/${runtimeDirectory}`))
    assert.deepEqual(rootsLeft(), [])
    assert.deepEqual(userFiles(), [])
  },
)

test('a unit that ended by itself leaves no user and no root once its VM is gone', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  await units.ensureStarted(web, shell(web, 'exit 0'), never)
  await until(
    () => units.inspect(web),
    ({ kind }) => kind === 'absent',
  )
  assert.deepEqual(userFiles(), ['700001.user', 'vmhost-web-1.user'])
  assert.deepEqual(rootsLeft(), ['web-1'])
  units.forget(web)
  units.forget(web)
  assert.deepEqual(userFiles(), [])
  assert.deepEqual(rootsLeft(), [])
})

test('a start that systemd cannot make says at which step it failed', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  const wrong: readonly [Partial<UnitSpec>, RegExp][] = [
    [{ ttyPath: '/dev/pts/99999' }, /status 208, while opening the console/],
    [{ readOnlyPaths: ['/var/tmp/no-such-kernel'] }, /status 226, while building the file system/],
    [{ supplementaryGroups: ['no-such-group'] }, /status 216, while joining the supplementary groups/],
  ]
  for (const [changes, message] of wrong) {
    await assert.rejects(units.ensureStarted(web, shell(web, untilExit, changes), never), (error) => {
      assert.ok(error instanceof HostFault && error.code === 'unit_start_failed')
      assert.match(errorChain(error), message)
      return true
    })
  }
  await assert.rejects(
    units.ensureStarted(web, shell(web, untilExit, { cpuQuotaPercent: 0 }), never),
    (error) => error instanceof HostFault && error.code === 'unit_start_failed',
  )
})

test('a stop replaces a start under way', { skip }, async (t) => {
  const { units, bus, shell } = stageOf(t)
  const started = Promise.withResolvers<void>()
  bus.onSignal(({ member, body }) => {
    if (member === 'JobNew' && body[2] === 'vmhost-web-1.service') started.resolve()
  })
  const starting = units.ensureStarted(web, shell(web, untilExit), never).catch((error: unknown) => error)
  await started.promise
  await units.ensureStopped(web, never)
  const outcome = await starting
  assert.ok(outcome === undefined || (outcome instanceof HostFault && outcome.code === 'unit_start_failed'))
  assert.deepEqual(await units.inspect(web), { kind: 'absent' })
})

test('an abort ends the wait for a start, and the begun start can be stopped', { skip }, async (t) => {
  const { units, bus, shell } = stageOf(t)
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  bus.onSignal(({ member }) => {
    if (member === 'JobNew') controller.abort(reason)
  })
  await assert.rejects(units.ensureStarted(web, shell(web, untilExit), controller.signal), reason)
  await units.ensureStopped(web, never)
  assert.deepEqual(await units.inspect(web), { kind: 'absent' })
})

test('a unit of someone else is listed without a store, or not at all', { skip }, async (t) => {
  const { units } = stageOf(t)
  const names = ['vmhost-foreign.service', 'vmhost-Foreign.service']
  for (const name of names) await sh('systemd-run', '--quiet', `--unit=${name}`, 'sleep', 'infinity')
  atEnd(t, () => sh('systemctl', 'stop', ...names))
  const listed = await units.list()
  assert.deepEqual(
    listed.map(({ id, storeId }) => [id, storeId]),
    [['foreign', undefined]],
  )
})
