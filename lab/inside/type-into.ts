import { leave, view } from './console.ts'
import { keptAwake } from './sleepers.ts'

/** A guest that is emulated on a busy machine takes minutes for what a line may ask. */
const BOUND_MS = 300_000

/** Begins each prompt of the shell: it asks for the position of the cursor (ECMA-48, device status report). */
const PROMPT = '\u001B[6n'

/** Types `typed` into a VM's serial console, if there is any, and returns its output up to the first `expected`. */
async function outputUntil(id: string, expected: string, typed?: string): Promise<string> {
  let text = ''
  const shown = Promise.withResolvers<void>()
  const viewer = await view(id, {
    onOutput: (chunk) => {
      text += chunk.toString('latin1')
      if (text.includes(expected)) shown.resolve()
    },
  })
  viewer.socket.on('close', () => shown.reject(new Error(`the console of ${id} closed`)))
  const late = (): void => shown.reject(new Error(`the console of ${id} shows: ${text.slice(-500)}`))
  const bound = setTimeout(late, BOUND_MS)
  if (typed !== undefined) viewer.socket.send(Buffer.from(typed))
  try {
    await shown.promise
  } finally {
    clearTimeout(bound)
    await leave(viewer)
  }
  return text
}

/**
 * Types a line into the shell of a VM's serial console, and waits until the guest has run it. Returns the output. Input
 * does not wake a guest: one that may fall asleep is kept awake by datagrams to `address` meanwhile.
 */
export async function typeInto(id: string, line: string, address?: string): Promise<string> {
  const marker = `done-${Date.now().toString(36)}`
  // The shell echoes typed text; there the marker is in two pieces.
  const [head, tail] = [marker.slice(0, 6), marker.slice(6)]
  const datagrams = address === undefined ? undefined : keptAwake(address)
  try {
    return await outputUntil(id, marker, `\r${line}; echo ${head}""${tail}\r`)
  } finally {
    datagrams?.end()
  }
}

/** Waits until the shell of a guest that was just started has shown its first prompt: it loses what is typed before. */
export const untilPrompt = (id: string): Promise<string> => outputUntil(id, PROMPT)
