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
  /** Lines that the host sent, in order. */
  readonly heard: string[]
  /** Commands that the host sent, without those that only check whether the agent is there. */
  readonly commands: () => readonly string[]
}

/** An agent in a guest, at the host's end of its port. It answers each line with the result of `answer`. */
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

/** Returns the answer of a listening agent to the check whether it listens; undefined for anything else. */
export const synced = ({ execute, arguments: args }: AgentRequest): string | undefined =>
  execute === SYNC ? `\xff{"return": ${args?.id}}\n` : undefined
