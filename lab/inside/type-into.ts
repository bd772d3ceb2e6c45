import { leave, view } from './console.ts'

/** Types a line into the shell of a VM's serial console, and waits until the guest has run it. */
export async function typeInto(id: string, line: string): Promise<string> {
  const marker = `done-${Date.now().toString(36)}`
  let text = ''
  const done = Promise.withResolvers<void>()
  const viewer = await view(id, {
    onOutput: (chunk) => {
      text += chunk.toString()
      // The shell echoes typed text; there the marker is in two pieces.
      if (text.includes(marker)) done.resolve()
    },
  })
  viewer.socket.on('close', () => done.reject(new Error(`the console of ${id} closed`)))
  const [head, tail] = [marker.slice(0, 6), marker.slice(6)]
  viewer.socket.send(Buffer.from(`\r${line}; echo ${head}""${tail}\r`))
  await done.promise
  await leave(viewer)
  return text
}

/** Begins each prompt of the shell: it asks for the position of the cursor (ECMA-48, device status report). */
const PROMPT = '\u001B[6n'

/** Waits until the shell of a guest that was just started has shown its first prompt: it loses what is typed before. */
export async function untilPrompt(id: string): Promise<void> {
  let text = ''
  const shown = Promise.withResolvers<void>()
  const viewer = await view(id, {
    onOutput: (chunk) => {
      text += chunk.toString('latin1')
      if (text.includes(PROMPT)) shown.resolve()
    },
  })
  viewer.socket.on('close', () => shown.reject(new Error(`the console of ${id} closed`)))
  await shown.promise
  await leave(viewer)
}
