import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'
import type { SshFailure } from '../../src/core/console/guest-ssh.ts'
import type { GuestShell, GuestShells, ShellEnd, ShellRequest } from '../../src/ports/guest-shells.ts'
import { until } from './until.ts'

/** A guest that accepts logins as `root`, and the test's control over it. */
export type GuestStage = {
  readonly shells: GuestShells
  readonly address: string
  /** An address that no route leads to. */
  readonly unroutable: string
  hostKey(): string
  changeHostKey(): void
  /** Sets how connections fail from now on. */
  fail(
    how: Exclude<SshFailure['kind'], 'no_route' | 'host_key_refused' | 'key_refused'>,
  ): Promise<void> | void
  /** Returns the newest shell, from inside the guest. */
  inside(): Promise<InsideShell>
  /** Connections that the guest holds open. */
  connections(): number
}

export type InsideShell = {
  readonly sizes: readonly WindowSize[]
  readonly input: Buffer
  readonly isClosed: boolean
  /** Bytes that the guest has written and could not send. */
  readonly unsent: number
  say(text: string | Uint8Array): void
  readInput(reading: boolean): void
  end(end: ShellEnd): void
}

const window: WindowSize = { cols: 100, rows: 30 }
const never = new AbortController().signal

/** A viewer's end: records what a shell said. */
type Heard = { readonly output: Buffer; readonly length: number; readonly ends: readonly ShellEnd[] }

function attach(shell: GuestShell): Heard {
  const pieces: Uint8Array[] = []
  const ends: ShellEnd[] = []
  shell.attach({ onOutput: (bytes) => pieces.push(bytes), onEnd: (end) => ends.push(end) })
  return {
    get output() {
      return Buffer.concat(pieces)
    },
    get length() {
      return pieces.reduce((sum, { length }) => sum + length, 0)
    },
    ends,
  }
}

async function opened(stage: GuestStage, changes: Partial<ShellRequest> = {}): Promise<GuestShell> {
  const outcome = await stage.shells.open(requestOf(stage, changes), never)
  assert.ok(outcome.ok, outcome.ok ? '' : `${outcome.error.kind}: ${outcome.error.detail}`)
  return outcome.value
}

const requestOf = (stage: GuestStage, changes: Partial<ShellRequest> = {}): ShellRequest => ({
  address: stage.address,
  user: 'root',
  window,
  acceptHostKey: () => true,
  ...changes,
})

async function assertFails(
  stage: GuestStage,
  kind: SshFailure['kind'],
  changes: Partial<ShellRequest> = {},
): Promise<void> {
  const outcome = await stage.shells.open(requestOf(stage, changes), never)
  assert.equal(outcome.ok ? 'a shell' : outcome.error.kind, kind)
  assert.match(outcome.ok ? '' : outcome.error.detail, /^[ -~]+$/, 'a reason in one line of plain text')
  await until(
    () => stage.connections(),
    (count) => count === 0,
  )
}

type Promised = (what: string, body: (stage: GuestStage) => Promise<void>) => void

/** Promises of every implementation of guest shells; `set` makes a stage and registers its own clean-up. */
export function guestShellsContract(
  name: string,
  set: (t: TestContext) => Promise<GuestStage> | GuestStage,
): void {
  const promised: Promised = (what, body) => {
    test(`${name}: ${what}`, async (t) => body(await set(t)))
  }
  terminalPromises(promised)
  separationPromises(promised)
  endPromises(promised)
  boundPromises(promised)
  failurePromises(promised)
}

function terminalPromises(promised: Promised): void {
  promised('a shell has a terminal of the requested size, and of each later size', async (stage) => {
    const shell = await opened(stage)
    const inside = await stage.inside()
    shell.resize({ cols: 132, rows: 50 })
    const sizes = await until(
      () => inside.sizes,
      ({ length }) => length === 2,
    )
    assert.deepEqual(sizes, [window, { cols: 132, rows: 50 }])
    shell.close()
  })

  promised('bytes pass both ways unchanged, in order', async (stage) => {
    const shell = await opened(stage)
    const heard = attach(shell)
    const inside = await stage.inside()
    const all = Uint8Array.from({ length: 256 }, (_, index) => index)
    for (let index = 0; index < 100; index += 1) shell.write(all)
    await until(
      () => inside.input.length,
      (length) => length === 25_600,
    )
    assert.deepEqual(inside.input, Buffer.concat(Array.from({ length: 100 }, () => all)))
    inside.say(all)
    inside.say('the end')
    await until(
      () => heard.length,
      (length) => length === 263,
    )
    assert.deepEqual(heard.output, Buffer.concat([all, Buffer.from('the end')]))
    shell.close()
  })

  promised('output before the first listener is kept', async (stage) => {
    const shell = await opened(stage)
    const inside = await stage.inside()
    inside.say('welcome')
    inside.end({ kind: 'exited', status: 0 })
    // A later connection has come and gone, so all earlier output is here.
    ;(await opened(stage)).close()
    const heard = attach(shell)
    await until(
      () => heard.ends.length,
      (count) => count === 1,
    )
    assert.equal(heard.output.toString(), 'welcome')
  })
}

function separationPromises(promised: Promised): void {
  promised('two shells in one guest do not affect each other', async (stage) => {
    const [first, second] = [await opened(stage), await opened(stage)]
    const inside = await stage.inside()
    second.write(Buffer.from('for the second'))
    await until(
      () => inside.input.toString(),
      (text) => text === 'for the second',
    )
    first.close()
    second.write(Buffer.from(' and more'))
    await until(
      () => inside.input.toString(),
      (text) => text.endsWith('more'),
    )
    assert.equal(inside.isClosed, false)
    second.close()
  })
}

function endPromises(promised: Promised): void {
  const ends: readonly ShellEnd[] = [
    { kind: 'exited', status: 0 },
    { kind: 'exited', status: 130 },
    { kind: 'killed', signal: 'SIGKILL' },
  ]
  for (const end of ends) {
    promised(
      `the end of a shell is reported once, after its last output: ${JSON.stringify(end)}`,
      async (stage) => {
        const shell = await opened(stage)
        const heard = attach(shell)
        const inside = await stage.inside()
        inside.say('x'.repeat(100_000))
        inside.say('bye')
        inside.end(end)
        await until(
          () => heard.ends.length,
          (count) => count > 0,
        )
        assert.equal(heard.length, 100_003)
        assert.deepEqual(heard.ends, [end])
        shell.close()
        shell.write(Buffer.from('too late'))
        shell.resize(window)
        await until(
          () => stage.connections(),
          (count) => count === 0,
        )
        assert.deepEqual(heard.ends, [end])
      },
    )
  }

  promised('a connection that breaks is reported as broken', async (stage) => {
    const shell = await opened(stage)
    const heard = attach(shell)
    ;(await stage.inside()).end({ kind: 'lost', because: 'the guest closed the connection' })
    await until(
      () => heard.ends.length,
      (count) => count > 0,
    )
    assert.equal(heard.ends[0]?.kind, 'lost')
  })

  promised(
    'closing ends the shell in the guest, and can be repeated; no output comes after it',
    async (stage) => {
      const shell = await opened(stage)
      const heard = attach(shell)
      const inside = await stage.inside()
      shell.close()
      shell.close()
      inside.say('is anybody there?')
      await until(
        () => [inside.isClosed, stage.connections()],
        ([isClosed, connections]) => isClosed === true && connections === 0,
      )
      assert.deepEqual([heard.length, heard.ends.length], [0, 0])
      shell.pause()
      shell.resume()
    },
  )
}

function boundPromises(promised: Promised): void {
  promised('a paused shell gives no output, and its output waits in the guest', async (stage) => {
    const shell = await opened(stage)
    const heard = attach(shell)
    const inside = await stage.inside()
    shell.pause()
    const written = 20 * 1024 * 1024
    for (let at = 0; at < written; at += 1024 * 1024) inside.say(Buffer.alloc(1024 * 1024, at))
    const stands = { unsent: -1, looks: 0 }
    await until(
      () => {
        stands.looks = inside.unsent === stands.unsent ? stands.looks + 1 : 0
        stands.unsent = inside.unsent
        return stands
      },
      ({ unsent, looks }) => unsent > 0 && looks === 20,
    )
    assert.equal(heard.length, 0)
    shell.resume()
    await until(
      () => heard.length,
      (length) => length === written,
    )
    shell.close()
  })

  promised('input that the guest does not read waits and is counted, and room is reported', async (stage) => {
    const shell = await opened(stage)
    const inside = await stage.inside()
    const seen = { roomNotices: 0 }
    shell.onInputRoom(() => {
      seen.roomNotices += 1
    })
    inside.readInput(false)
    const piece = Buffer.alloc(64 * 1024, 'p')
    let written = 0
    // With a real guest, kernels and windows hold some of the output.
    while (shell.inputWaiting <= limits.consoleInputBytesMax && written < 64 * 1024 * 1024) {
      shell.write(piece)
      written += piece.length
      await new Promise(setImmediate)
    }
    assert.ok(shell.inputWaiting > limits.consoleInputBytesMax)
    assert.equal(seen.roomNotices, 0)
    inside.readInput(true)
    await until(
      () => inside.input.length,
      (length) => length === written,
    )
    await until(
      () => seen.roomNotices,
      (roomNotices) => roomNotices === 1,
    )
    assert.equal(shell.inputWaiting, 0)
    shell.close()
  })
}

function failurePromises(promised: Promised): void {
  promised('the host key decides, and is checked first', async (stage) => {
    const seen: string[] = []
    const acceptHostKey = (fingerprint: string): boolean => {
      seen.push(fingerprint)
      return seen.length > 1
    }
    await assertFails(stage, 'host_key_refused', { acceptHostKey, user: 'nobody' })
    stage.changeHostKey()
    const shell = await opened(stage, { acceptHostKey })
    assert.equal(seen.length, 2)
    assert.notEqual(seen[0], seen[1])
    assert.equal(seen[1], stage.hostKey())
    assert.match(stage.hostKey(), /^SHA256:[A-Za-z0-9+/]{43}$/)
    shell.close()
  })

  promised("a user without the daemon's key is refused", async (stage) => {
    await assertFails(stage, 'key_refused', { user: 'nobody' })
  })

  promised('an address without a route is unreachable', async (stage) => {
    await assertFails(stage, 'no_route', { address: stage.unroutable })
  })

  for (const kind of ['refused', 'timed_out', 'shell_refused', 'failed'] as const) {
    promised(`a guest that fails a connection: ${kind}`, async (stage) => {
      await stage.fail(kind)
      await assertFails(stage, kind)
    })
  }

  promised('an abort ends the attempt with its own reason and leaves no connection behind', async (stage) => {
    const leaving = new AbortController()
    const reason = new Error('the viewer left')
    const acceptHostKey = (): boolean => {
      leaving.abort(reason)
      return true
    }
    await assert.rejects(stage.shells.open(requestOf(stage, { acceptHostKey }), leaving.signal), reason)
    await assert.rejects(stage.shells.open(requestOf(stage), leaving.signal), reason)
    await until(
      () => stage.connections(),
      (count) => count === 0,
    )
  })
}
