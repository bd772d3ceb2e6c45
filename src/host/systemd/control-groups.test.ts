import assert from 'node:assert/strict'
import { spawn, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync, mkdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open, readFile } from 'node:fs/promises'
import { endProcesses, processesIn, EarlyMove } from './control-groups.ts'
import type { TestContext } from 'node:test'

const never = new AbortController().signal

/** Makes a directory that looks like a control group of a kernel without cgroup.kill. */
function groupOf(
  t: TestContext,
  procs: string,
): { readonly group: string; readonly become: (procs: string) => void } {
  const group = mkdtempSync(join(tmpdir(), 'group-'))
  t.after(() => rmSync(group, { recursive: true }))
  const become = (text: string): void => writeFileSync(join(group, 'cgroup.procs'), text)
  become(procs)
  return { group, become }
}

test('a group that does not exist has no processes, and ending them succeeds', async () => {
  assert.deepEqual(await processesIn('/no/such/group'), [])
  await endProcesses('/no/such/group', never)
})

test('processes are returned in the order of the kernel', async (t) => {
  assert.deepEqual(await processesIn(groupOf(t, '12\n345\n').group), [12, 345])
  assert.deepEqual(await processesIn(groupOf(t, '').group), [])
})

test('if the kernel cannot kill a group, its processes are killed one by one', async (t) => {
  const children = [1, 2].map(() => spawn('sleep', ['infinity'], { stdio: 'ignore' }))
  t.after(() => children.forEach((child) => child.kill('SIGKILL')))
  const { group, become } = groupOf(t, children.map(({ pid }) => `${pid}\n`).join(''))
  const ended = Promise.all(children.map((child) => once(child, 'exit'))).then((exits) => {
    become('')
    return exits.map(([, signal]) => signal as string)
  })
  await endProcesses(group, never)
  assert.deepEqual(await ended, ['SIGKILL', 'SIGKILL'])
})

test('a process that does not end is awaited until the signal aborts, and pid 0 is not killed', async (t) => {
  // 0 is a process outside of our pid namespace. Killing pid 0 would kill this test.
  const { group } = groupOf(t, '0\n')
  const controller = new AbortController()
  const reason = new Error('the step is overdue')
  setImmediate(() => controller.abort(reason))
  await assert.rejects(endProcesses(group, controller.signal), reason)
})

type Stage = { readonly move: EarlyMove; readonly notify: (groups: string) => void; readonly tree: string }

/** Makes a tree of control groups with one group, and a process whose own group the test sets. */
function stage(t: TestContext): Stage {
  const directory = mkdtempSync(join(tmpdir(), 'early-move-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const tree = join(directory, 'unified')
  mkdirSync(join(tree, 'system.slice/own.service'), { recursive: true })
  const ownGroups = join(directory, 'cgroup')
  return {
    move: new EarlyMove({ ownGroups, tree: () => tree }),
    notify: (groups) => writeFileSync(ownGroups, groups),
    tree,
  }
}

const V1 = '4:memory:/\n1:name=systemd:/system.slice/own.service\n'

for (const [kind, groups] of [
  ['v2', '0::/system.slice/own.service\n'],
  ['v2 beside v1', `4:memory:/\n1:name=systemd:/elsewhere\n0::/system.slice/own.service\n`],
  ['v1', V1],
] as const) {
  test(`a process moves to the group that it is in, with control groups of ${kind}`, async (t) => {
    const { move, notify, tree } = stage(t)
    const processes = join(tree, 'system.slice/own.service/cgroup.procs')
    writeFileSync(processes, '')
    notify(groups)
    assert.equal(await move.make(), true)
    assert.equal(readFileSync(processes, 'utf8'), '0')
  })
}

test('only one move runs at a time', async (t) => {
  const { move, notify, tree } = stage(t)
  const processes = join(tree, 'system.slice/own.service/cgroup.procs')
  execFileSync('mkfifo', [processes])
  notify(V1)
  // A pipe keeps what is written until it is read.
  const pipe = await open(processes, 'r+')
  t.after(() => pipe.close())
  const written = async (): Promise<string> => {
    const { bytesRead, buffer } = await pipe.read(Buffer.alloc(16))
    return buffer.toString('latin1', 0, bytesRead)
  }
  assert.deepEqual(await Promise.all([move.make(), move.make()]), [true, true])
  assert.equal(await written(), '0')
  assert.equal(await move.make(), true)
  assert.equal(await written(), '0')
})

test('if there is no group, nothing is written and nothing fails', async (t) => {
  const { move, notify, tree } = stage(t)
  const other = join(tree, 'system.slice/cgroup.procs')
  writeFileSync(other, '')
  for (const groups of [
    '',
    '4:memory:/\n',
    '0::/gone.service\n',
    '0::/../unified/system.slice\n',
    '0::/system.slice/own.service\n',
  ]) {
    notify(groups)
    assert.equal(await move.make(), false)
  }
  assert.equal(readFileSync(other, 'utf8'), '')
  await assert.rejects(readFile(join(tree, 'system.slice/own.service/cgroup.procs')), { code: 'ENOENT' })
})
