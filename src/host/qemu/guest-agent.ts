import { connect } from 'node:net'
import { limits } from '../../config/limits.ts'

/**
 * Tells the agent in a guest what time it is (QEMU, docs/interop/qemu-ga-ref: guest-sync-delimited, guest-set-time), and
 * resolves to whether it took it. The time is sent only to an agent that has just answered: what is sent where nobody
 * listens waits in the device, and would set a clock back one day. Where nothing answers until the abort, that is no
 * failure: most guests have no agent.
 *
 * @param now milliseconds since 1970, asked when the time is sent
 */
export async function tellGuestTime(path: string, now: () => number, signal: AbortSignal): Promise<boolean> {
  const socket = connect({ path, signal })
  const id = Math.trunc(performance.now() * 1000)
  // A byte that is in no JSON makes an agent forget what it had read before (its section on guest-sync-delimited).
  socket.write(Buffer.from(`\xff${request('guest-sync-delimited', `{"id":${id}}`)}`, 'latin1'))
  let isThere = false
  let text = ''
  try {
    for await (const chunk of socket) {
      text += (chunk as Buffer).toString('latin1')
      if (text.length > limits.guestAgentBytesMax) return false
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        const answer = answerIn(line)
        if (isThere) return answer !== undefined
        // What it answers to others' questions, or to one of before, comes first.
        if (answer !== id) continue
        isThere = true
        // A JSON number of nanoseconds, which a number of JavaScript cannot hold.
        socket.write(request('guest-set-time', `{"time":${BigInt(now()) * 1_000_000n}}`))
      }
    }
  } catch {
    // The socket or the guest is gone, or time is up.
  } finally {
    socket.destroy()
  }
  return false
}

const request = (command: string, args: string): string => `{"execute":"${command}","arguments":${args}}\n`

/** What an agent returned; undefined where it refused, or said something else. */
function answerIn(line: string): unknown {
  try {
    return (JSON.parse(line.replaceAll('\xff', '')) as { return?: unknown } | null)?.return
  } catch {
    return undefined
  }
}
