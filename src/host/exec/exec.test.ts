import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { ExitError } from './exit-error.ts'
import { run } from './exec.ts'

const failure = async (promise: Promise<unknown>): Promise<unknown> => {
  try {
    await promise
  } catch (error) {
    return error
  }
  return assert.fail('it should have failed')
}

/**
 * Whether a process has ended or can no longer continue. A dying process closes its files before it becomes a zombie,
 * so the state alone changes too late. PF_EXITING is set before either (kernel/exit.c; `flags`, the ninth field of
 * proc_pid_stat(5)).
 */
const isDead = (pid: number): boolean => {
  const PF_EXITING = 0x4
  try {
    const [, rest] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    return (Number(rest?.split(' ')[6]) & PF_EXITING) !== 0
  } catch {
    return true
  }
}

test('input is passed in, and output and status are returned', async () => {
  assert.deepEqual(await run(['cat'], { input: 'grüße\n' }), { code: 0, stdout: 'grüße\n' })
})

test('arguments reach the program unchanged, because there is no shell', async () => {
  const { stdout } = await run(['printf', '%s|', '$HOME', '`id`', 'a b', ';'])
  assert.equal(stdout, '$HOME|`id`|a b|;|')
})

test('the environment is clean', async () => {
  process.env['VMHOSTD_TEST_SECRET'] = 'x'
  const { stdout } = await run(['env'])
  const names = stdout
    .trim()
    .split('\n')
    .map((line) => line.split('=')[0])
  assert.deepEqual(new Set(names), new Set(['PATH', 'LANG', 'LC_ALL']))
})

test('a program that is not installed is the fault tool_missing and is named', async () => {
  const error = await failure(run(['vmhostd-no-such-program', 'x']))
  assert.ok(error instanceof HostFault)
  assert.equal(error.code, 'tool_missing')
  assert.match(error.message, /vmhostd-no-such-program/)
})

test('a file that may not be executed is the fault tool_missing', async () => {
  const error = await failure(run(['/etc/passwd']))
  assert.ok(error instanceof HostFault)
  assert.equal(error.code, 'tool_missing')
})

test('an unexpected exit status carries the status and the last words of the program', async () => {
  const error = await failure(run(['sh', '-c', 'echo early >&2; echo "no such thing" >&2; exit 3']))
  assert.ok(error instanceof ExitError)
  assert.equal(error.code, 3)
  assert.equal(error.signal, undefined)
  assert.match(error.message, /^sh exited with status 3: early\nno such thing$/)
})

test('a status that the caller expects is not a failure', async () => {
  const { code } = await run(['sh', '-c', 'exit 3'], { okCodes: [0, 3] })
  assert.equal(code, 3)
})

test('a program ended by a signal says which', async () => {
  const error = await failure(run(['sh', '-c', 'kill -TERM $$']))
  assert.ok(error instanceof ExitError)
  assert.equal(error.signal, 'SIGTERM')
  assert.equal(error.code, undefined)
})

test('a program past its deadline is killed with its children', async () => {
  const error = await failure(run(['sh', '-c', 'sleep 1000 & echo $! >&2; wait'], { timeoutMs: 100 }))
  assert.ok(error instanceof ExitError)
  assert.equal(error.ending.kind, 'deadline')
  assert.ok(isDead(Number(error.stderr)))
})

test('a program that writes without end is killed', async () => {
  const error = await failure(run(['yes'], { outputBytesMax: 1000 }))
  assert.ok(error instanceof ExitError)
  assert.deepEqual(error.ending, { kind: 'too-much-output', outputBytesMax: 1000 })
})

test('an abort kills the program and rejects with the reason', async () => {
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  const running = failure(run(['sleep', '1000'], { signal: controller.signal }))
  controller.abort(reason)
  assert.equal(await running, reason)
})

test('nothing is started if the signal is already aborted', async () => {
  const reason = new Error('too late')
  assert.equal(await failure(run(['vmhostd-no-such-program'], { signal: AbortSignal.abort(reason) })), reason)
})

test('a program that does not read its input is judged by its status alone', async () => {
  const { code } = await run(['true'], { input: 'x'.repeat(1_000_000) })
  assert.equal(code, 0)
})

test('a program does not inherit that this process ignores SIGPIPE', async () => {
  const error = await failure(run(['sh', '-c', 'kill -PIPE $$; exit 0']))
  assert.ok(error instanceof ExitError)
  assert.equal(error.signal, 'SIGPIPE')
})

test('a program runs in the root directory', async () => {
  assert.equal((await run(['pwd'])).stdout, '/\n')
})

test('the start of a program does not make pages of this process fault again', async () => {
  const PAGE = 4096
  const memory = Buffer.alloc(64 * 1024 * 1024, 1)
  const touch = (): number => {
    const before = process.resourceUsage().minorPageFault
    for (let at = 0; at < memory.length; at += PAGE) memory[at] = 2
    return process.resourceUsage().minorPageFault - before
  }
  touch()
  await run(['true'])
  const faults = touch()
  assert.ok(faults < memory.length / PAGE / 8, `${faults} page faults`)
})
