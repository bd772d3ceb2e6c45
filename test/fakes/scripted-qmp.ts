import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'

export type ScriptedQmpOptions = {
  readonly version?: readonly number[]
  readonly onCommand?: (command: string, args: unknown) => void
  /** Called once when clients can connect. */
  readonly onReady?: (monitor: ScriptedQmp) => void
}

type Command = { readonly execute: string; readonly id: number; readonly arguments?: unknown }

export type ScriptedQmp = {
  /** Sends an event to all clients. */
  readonly report: (event: string, data?: object) => void
  /** Ends all connections. */
  readonly cut: () => void
}

/** A QEMU that answers each command with what is written for it at that moment, or with `{}`; `error` refuses. */
export async function scriptedQmp(
  t: TestContext,
  path: string,
  answers: Readonly<Record<string, unknown>>,
  { version = [10, 0, 2], onCommand = () => {}, onReady = () => {} }: ScriptedQmpOptions = {},
): Promise<ScriptedQmp> {
  const [major, minor, micro] = version
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.write(`${JSON.stringify({ QMP: { version: { qemu: { major, minor, micro } } } })}\n`)
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      const lines = (text + chunk).split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        const { execute, id, arguments: args } = JSON.parse(line) as Command
        onCommand(execute, args)
        const answer = execute in answers ? answers[execute] : {}
        const isRefusal = typeof answer === 'object' && answer !== null && 'error' in answer
        socket.write(`${JSON.stringify({ id, ...(isRefusal ? answer : { return: answer }) })}\n`)
      }
    })
  })
  t.after(() => server.close())
  await once(server.listen(path), 'listening')
  const monitor: ScriptedQmp = {
    report: (event, data = {}) => {
      for (const socket of sockets) socket.write(`${JSON.stringify({ event, data })}\n`)
    },
    cut: () => {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
  }
  onReady(monitor)
  return monitor
}
