import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { outcomeOf } from '../api/listener/audit.ts'
import { hasErrno } from '../host/ffi/errno-error.ts'
import { noVmWords } from '../commands/vm/store-desired.ts'
import { parseVmId } from '../core/ids.ts'
import { given } from '../lib/given.ts'
import { consoleHelp, planHelp } from './help/question-help.ts'
import { localPeer } from './local-peer.ts'
import { operatorCommand } from './operator-command.ts'
import { RetriedListener } from './retried-listener.ts'
import { errorChain } from '../log/error-chain.ts'
import { loadConfig } from '../config/config.ts'
import { printableLines } from '../lib/text.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ParseArgsOptionsConfig } from 'node:util'
import type { VmId } from '../core/ids.ts'
import type { Log } from '../log/log.ts'
import type { CommandHelp } from './help/command-help.ts'
import type { RetriedPart } from './retried-listener.ts'

/** Questions that the commands of this host put to the running daemon; undefined if there is no such VM. */
export type AdminAnswers = {
  readonly plan: (id: VmId) => Promise<string | Uint8Array | undefined>
  readonly console: (id: VmId) => Promise<string | Uint8Array | undefined>
}

type AdminQuestion = keyof AdminAnswers

/** Path below the run directory; only root on this host can open it. */
const socketPath = (runDirectory: string): string => `${runDirectory}/admin.sock`

type AdminSocketOptions = {
  readonly runDirectory: string
  readonly answers: AdminAnswers
  readonly log: Log
  /** Interval of tries; for tests. */
  readonly retryMs?: number
}

/**
 * Opens a local socket for commands such as `vmhostd plan`, which therefore need no certificate. Only the daemon can
 * answer them: a monitor takes one client at a time. If the socket cannot be made, it is tried again, because VMs do
 * not need it.
 */
export function openAdminSocket({
  runDirectory,
  answers,
  log,
  retryMs,
}: AdminSocketOptions): Promise<RetriedListener> {
  const path = socketPath(runDirectory)
  return RetriedListener.open({
    address: path,
    log: log.child({ listener: 'local' }),
    without: 'no local socket, so "vmhostd plan" and "vmhostd console" have no answer; trying again',
    start: () => listenOn(path, answers, log),
    ...given({ retryMs }),
  })
}

async function listenOn(path: string, answers: AdminAnswers, log: Log): Promise<RetriedPart> {
  rmSync(path, { force: true })
  const respond = async ({ socket, url = '' }: IncomingMessage, response: ServerResponse): Promise<void> => {
    const peer = localPeer(socket)
    const { question, id } = questionOf(url)
    const { status, body } = await answer(url, answers)
    log.audit(
      { action: question, ...peer, ...given({ vm_id: id }), outcome: outcomeOf(status), status },
      'request audited',
    )
    response.writeHead(status).end(body)
  }
  const server = createServer((incoming, response) => void respond(incoming, response))
  server.listen(path)
  await once(server, 'listening')
  chmodSync(path, 0o600)
  return { close: async () => void server.close() }
}

function questionOf(url: string): { question: string; name: string; id: VmId | undefined } {
  const [, question = '', name = ''] = /^\/(plan|console)\/(.+)$/.exec(url) ?? []
  return { question, name, id: parseVmId(name) }
}

async function answer(
  url: string,
  answers: AdminAnswers,
): Promise<{ status: number; body: string | Uint8Array }> {
  const { question, name, id } = questionOf(url)
  if (id === undefined) return { status: 404, body: `${name} is not a VM id` }
  try {
    const body = await answers[question as AdminQuestion](id)
    return body === undefined ? { status: 404, body: noVmWords(id) } : { status: 200, body }
  } catch (error) {
    return { status: 500, body: errorChain(error) }
  }
}

/** Asks the running daemon. Throws an error for the operator if the daemon does not run or has no answer. */
async function askDaemon(runDirectory: string, question: AdminQuestion, id: string): Promise<Buffer> {
  const asked = request({
    socketPath: socketPath(runDirectory),
    path: `/${question}/${encodeURIComponent(id)}`,
  })
  asked.end()
  let response
  try {
    ;[response] = (await once(asked, 'response')) as [IncomingMessage]
  } catch (cause) {
    throw new Error(
      'the daemon does not answer: is it running (systemctl status vmhostd), and are you root',
      { cause },
    )
  }
  const body = Buffer.concat(await response.toArray())
  if (response.statusCode !== 200) throw new Error(body.toString())
  return body
}

/** Resolves when all is written, or its reader has read enough. Throws any other error of the output. */
async function printOut(answered: Uint8Array | string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const end = (error: Error | null | undefined): void =>
    error instanceof Error && !hasErrno(error, 'EPIPE') ? reject(error) : resolve()
  process.stdout.on('error', end).write(answered, end)
  await promise
}

type Question = {
  readonly help: CommandHelp & { readonly name: AdminQuestion }
  /** Options of its own: --raw prints the answer byte for byte. */
  readonly options: ParseArgsOptionsConfig
}

/** Makes a command about one VM that the running daemon answers. */
const question = ({ help, options }: Question) =>
  operatorCommand({
    help,
    options,
    run: async (values, [id, ...more]) => {
      if (id === undefined || more.length > 0) return 'help'
      const answered = await askDaemon(loadConfig(values.config).runDirectory, help.name, id)
      await printOut(values['raw'] === true ? answered : printableLines(answered.toString()))
      return 0
    },
  })

/** Runs `vmhostd plan VM`. */
export const planCommand = question({ help: planHelp, options: {} })

/** Runs `vmhostd console VM`. */
export const consoleCommand = question({ help: consoleHelp, options: { raw: { type: 'boolean' } } })
