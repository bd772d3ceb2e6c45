import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'

export type AgentRequest = {
  readonly execute: string
  readonly arguments?: { readonly id?: number; readonly time?: number }
}

export type ScriptedAgent = {
  readonly path: string
  /** Lines, in order. */
  readonly heard: string[]
  /** Commands that were sent to it, without those that only ask whether it is there. */
  readonly commands: () => readonly string[]
}

/** An agent in a guest, at the host's end of its port, that says what `answer` returns to each line. */
export async function scriptedAgent(
  t: TestContext,
  answer: (request: AgentRequest, socket: Socket) => string,
): Promise<ScriptedAgent> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const path = join(directory, 'agent.sock')
  const heard: string[] = []
  const read = (line: string): AgentRequest => JSON.parse(line.replace('\xff', '')) as AgentRequest
  const server = createServer((socket) => {
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const line of text.split('\n').filter((part) => part !== '')) {
        heard.push(line)
        socket.write(answer(read(line), socket), 'latin1')
      }
    })
    socket.on('error', () => {})
  }).listen(path)
  await once(server, 'listening')
  t.after(() => {
    server.close()
    rmSync(directory, { recursive: true })
  })
  const commands = (): readonly string[] =>
    heard.map((line) => read(line).execute).filter((name) => name !== SYNC)
  return { path, heard, commands }
}

const SYNC = 'guest-sync-delimited'

/** The answer of one that listens, to who asks whether it does; undefined to anything else. */
export const synced = ({ execute, arguments: args }: AgentRequest): string | undefined =>
  execute === SYNC ? `\xff{"return": ${args?.id}}\n` : undefined
