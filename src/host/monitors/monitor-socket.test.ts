import assert from 'node:assert/strict'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { silentLog } from '../../log/log.ts'
import { askAgent } from '../guest-agent/guest-agent.ts'
import { connectToMonitor, ForeignSocket, onceListening } from './monitor-socket.ts'
import { QemuMonitor } from '../qemu/qemu-monitor.ts'
import { MonitorLost } from './monitor-error.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal
const STRANGER = 65_534
const asRoot = process.getuid?.() === 0 ? {} : { skip: 'needs root' }

type Stage = {
  readonly runDirectory: string
  readonly path: (of: VmId, name: string) => string
  /** Listens in a VM's directory, and returns how many connections and bytes came. */
  readonly listen: (of: VmId, name: string) => Promise<() => { connections: number; bytes: number }>
}

function stageOf(t: TestContext): Stage {
  const runDirectory = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(runDirectory, { recursive: true }))
  for (const vm of [id, other]) mkdirSync(join(runDirectory, vm))
  const path = (of: VmId, name: string): string => join(runDirectory, of, name)
  const listen: Stage['listen'] = async (of, name) => {
    const seen = { connections: 0, bytes: 0 }
    const server = createServer((socket) => {
      seen.connections += 1
      socket.on('data', (chunk) => (seen.bytes += chunk.length)).on('error', () => {})
      socket.write('hello')
    }).listen(path(of, name))
    await once(server, 'listening')
    t.after(() => server.close())
    return () => seen
  }
  return { runDirectory, path, listen }
}

/** Asks a monitor for its state, and returns the fault that it throws. */
async function faultOfInspect(stage: Stage): Promise<HostFault> {
  const monitor = new QemuMonitor({
    program: '/nonexistent/qemu',
    accelerator: 'tcg',
    runDirectory: stage.runDirectory,
    log: silentLog,
  })
  const fault: unknown = await monitor.inspect(id).then(
    (state) => assert.fail(`the monitor is ${state.kind}`),
    (error: unknown) => error,
  )
  monitor.close()
  assert.ok(fault instanceof HostFault)
  return fault
}

test('a socket of the VM itself is connected to', async (t) => {
  const stage = stageOf(t)
  await stage.listen(id, 'qmp.sock')
  const socket = connectToMonitor(stage.path(id, 'qmp.sock'))
  const [said] = (await once(socket, 'data')) as [Buffer]
  assert.equal(said.toString(), 'hello')
  socket.destroy()
})

test('a link to the control socket of another VM is a fault, and the other VM hears nothing', async (t) => {
  const stage = stageOf(t)
  const heard = await stage.listen(other, 'qmp.sock')
  symlinkSync(stage.path(other, 'qmp.sock'), stage.path(id, 'qmp.sock'))
  const fault = await faultOfInspect(stage)
  assert.equal(fault.code, 'monitor_unreachable')
  assert.match(errorChain(fault), /web-1\/qmp\.sock is not a socket/)
  assert.deepEqual(heard(), { connections: 0, bytes: 0 })
})

test('a link to the agent of another VM is reported as foreign, and the other VM hears nothing', async (t) => {
  const stage = stageOf(t)
  const heard = await stage.listen(other, 'agent.sock')
  symlinkSync(stage.path(other, 'agent.sock'), stage.path(id, 'agent.sock'))
  const answer = await askAgent({ path: stage.path(id, 'agent.sock') }, () => ({ name: 'guest-ping' }), never)
  assert.equal(answer.kind, 'foreign')
  assert.deepEqual(heard(), { connections: 0, bytes: 0 })
})

test(
  'a socket on which another user listens gets no byte, and the fault names both users',
  asRoot,
  async (t) => {
    const stage = stageOf(t)
    const heard = await stage.listen(id, 'qmp.sock')
    chownSync(join(stage.runDirectory, id), STRANGER, STRANGER)
    const fault = await faultOfInspect(stage)
    assert.match(errorChain(fault), /a process of user 0 listens on .*qmp\.sock, which is for user 65534/)
    const path = stage.path(id, 'qmp.sock')
    const openFiles = readdirSync('/proc/self/fd').length
    for (let time = 0; time < 20; time += 1) assert.throws(() => connectToMonitor(path), ForeignSocket)
    // Connections that the listener accepted may still be open.
    await until(
      () => readdirSync('/proc/self/fd').length,
      (count) => count <= openFiles,
    )
    assert.equal((await askAgent({ path }, () => ({ name: 'guest-ping' }), never)).kind, 'foreign')
    assert.equal(heard().bytes, 0)
  },
)

test('a file in place of a socket is a fault', async (t) => {
  const stage = stageOf(t)
  writeFileSync(stage.path(id, 'qmp.sock'), '')
  assert.match(errorChain(await faultOfInspect(stage)), /is not a socket/)
})

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** Makes a connection that fails with each of the reasons in turn, and then succeeds. */
function connection(...reasons: string[]): { connect: () => Promise<string>; tried: () => number } {
  let tries = 0
  return {
    tried: () => tries,
    connect: async () => {
      const why = reasons[tries++]
      if (why !== undefined) throw new MonitorLost(why)
      return 'connected'
    },
  }
}

test('a socket that does not exist is tried again when it does, and not before', async (t) => {
  const path = join(directoryOf(t), 'qmp.sock')
  const { connect, tried } = connection('ENOENT', 'ECONNREFUSED', 'ECONNREFUSED')
  const connecting = onceListening(path, connect, never)
  await new Promise(setImmediate)
  assert.equal(tried(), 1)
  const server = createServer().listen(path)
  t.after(() => server.close())
  assert.equal(await connecting, 'connected')
  assert.equal(tried(), 4)
})

test('a directory in which a monitor may make files without end is not watched while its socket is waited for', async (t) => {
  const path = join(directoryOf(t), 'qmp.sock')
  const aborting = new AbortController()
  const waiting = onceListening(path, connection('ENOENT').connect, aborting.signal)
  await new Promise(setImmediate)
  // proc_pid_fdinfo(5): each watch of inotify(7) has a line.
  const open = readdirSync('/proc/self/fd').map((fd) => `/proc/self/fdinfo/${fd}`)
  const watching = open.filter(
    (file) => existsSync(file) && readFileSync(file, 'utf8').includes('inotify wd:'),
  )
  aborting.abort(new Error('seen'))
  await assert.rejects(waiting, /seen/)
  assert.deepEqual(watching, [])
})

test('a directory that does not exist, or is removed, ends the wait', async (t) => {
  const directory = directoryOf(t)
  const path = join(directory, 'qmp.sock')
  const { connect } = connection('ENOENT', 'ENOENT', 'ENOENT')
  const connecting = onceListening(path, connect, never)
  rmSync(directory, { recursive: true })
  await assert.rejects(connecting, { why: 'ENOENT' })
  await assert.rejects(onceListening(path, connect, never), { why: 'ENOENT' })
})

test('a monitor that does not greet is not asked again, and the wait can be aborted', async (t) => {
  const path = join(directoryOf(t), 'qmp.sock')
  await assert.rejects(onceListening(path, connection('no greeting').connect, never), { why: 'no greeting' })
  const aborting = new AbortController()
  const waiting = onceListening(path, connection('ENOENT').connect, aborting.signal)
  aborting.abort(new Error('the VM is being deleted'))
  await assert.rejects(waiting, /being deleted/)
})
