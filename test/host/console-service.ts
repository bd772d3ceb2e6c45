import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import type { Consoles } from '../../src/ports/consoles.ts'
import { until } from '../contract/until.ts'
import type { AskedConsoles, ConsolesStage, SessionView } from '../contract/consoles-stage.ts'
import { movedOf, movedText } from '../contract/console-follower.ts'
import type { MovedText } from '../contract/console-follower.ts'
import type { AgentAnswer, AgentMethod } from './console-agent.ts'

const NAME = 'vmhostd-console-test.service'
const UNITS = '/run/systemd/system'
const LINK = join(UNITS, 'multi-user.target.wants', NAME)
const SOCKET = '/run/vmhostd-console-test.sock'
const RUN_DIRECTORY = '/run/vmhostd-console-test'
const STORE_MAX = 8

/** Set-up of a daemon's unit. By default the unit has all that consoles need. */
export type Setting = Partial<
  Record<'Type' | 'NotifyAccess' | 'FileDescriptorStoreMax' | 'FileDescriptorStorePreserve', string>
>

export const systemctl = async (...words: string[]): Promise<string> =>
  (await run(['systemctl', ...words])).stdout.trim()

/** The console agent as a service on this host, and the actions of an operator on it. */
export class ConsoleService {
  readonly name = NAME

  #installed = ''

  /** Starts the service with that set-up; if it has that set-up already, only starts it. */
  async install(setting: Setting, enabled: boolean): Promise<void> {
    const wanted = JSON.stringify([setting, enabled])
    if (this.#installed !== '' && this.#installed !== wanted) await this.remove()
    if (this.#installed !== wanted) await this.#write(setting, enabled)
    this.#installed = wanted
    await systemctl('start', NAME)
    // A service that cannot notify systemd when it is ready.
    if (setting.Type !== undefined)
      await until(
        () => existsSync(SOCKET),
        (exists) => exists,
      )
  }

  async #write(setting: Setting, enabled: boolean): Promise<void> {
    const lines = Object.entries({
      Type: 'notify',
      NotifyAccess: 'main',
      FileDescriptorStoreMax: String(STORE_MAX),
      FileDescriptorStorePreserve: 'yes',
      ...setting,
    }).map(([key, value]) => `${key}=${value}`)
    const agent = join(import.meta.dirname, 'console-agent.ts')
    const command = [process.execPath, agent, SOCKET, String(STORE_MAX), RUN_DIRECTORY].join(' ')
    const unit = [
      '[Unit]',
      'StartLimitIntervalSec=0',
      '[Service]',
      `ExecStart=${command}`,
      'Restart=always',
      'RestartSec=0',
      ...lines,
      '',
    ]
    writeFileSync(join(UNITS, NAME), unit.join('\n'))
    rmSync(LINK, { force: true })
    mkdirSync(dirname(LINK), { recursive: true })
    if (enabled) symlinkSync(join(UNITS, NAME), LINK)
    await systemctl('daemon-reload')
  }

  /** Disables the running service. The next test installs it again. */
  async disable(): Promise<void> {
    this.#installed = 'disabled'
    rmSync(LINK)
    await systemctl('daemon-reload')
  }

  /** Ends the service for good, together with its store. */
  async remove(): Promise<void> {
    this.#installed = ''
    await systemctl('stop', NAME)
    await systemctl('clean', '--what=fdstore', NAME).catch(() => {})
    rmSync(join(UNITS, NAME))
    rmSync(SOCKET, { force: true })
    rmSync(RUN_DIRECTORY, { recursive: true, force: true })
    rmSync(join(UNITS, 'multi-user.target.wants', NAME), { force: true })
    await systemctl('daemon-reload')
  }

  property(name: string): Promise<string> {
    return systemctl('show', '--value', `--property=${name}`, NAME)
  }

  /** Kills the daemon and waits until systemd has started the next one. */
  async crash(): Promise<void> {
    await systemctl('kill', '--signal=KILL', NAME)
    await systemctl('restart', NAME)
  }

  async ask(method: AgentMethod, id = '' as VmId, argument?: unknown): Promise<unknown> {
    const connection = createConnection(SOCKET)
    connection.write(`${JSON.stringify({ method, id, argument })}\n`)
    const answer = JSON.parse(await text(connection)) as AgentAnswer
    if ('fault' in answer) throw new HostFault(answer.fault.code, answer.fault.message)
    if ('bug' in answer) throw new Error(answer.bug)
    return answer.value
  }

  readonly consoles: AskedConsoles = {
    inspect: (id) => this.ask('inspect', id) as ReturnType<Consoles['inspect']>,
    ensureMaster: (id) => this.ask('ensureMaster', id) as Promise<string>,
    removeMaster: (id) => this.ask('removeMaster', id) as Promise<never>,
    endSession: (id) => this.ask('endSession', id) as Promise<never>,
    remove: (id) => this.ask('remove', id) as Promise<never>,
    adoptHistory: (id, moved) => this.ask('adoptHistory', id, movedText(moved)) as Promise<never>,
    places: () => this.ask('places') as ReturnType<Consoles['places']>,
    list: () => this.ask('list') as Promise<VmId[]>,
    stored: () => this.ask('stored') as Promise<VmId[]>,
  }

  async view(id: VmId, since: number): Promise<SessionView | undefined> {
    return ((await this.ask('view', id, since)) ?? undefined) as SessionView | undefined
  }

  readonly sessions: Pick<
    ConsolesStage,
    'view' | 'last' | 'moved' | 'heard' | 'offered' | 'type' | 'passInput' | 'resize'
  > = {
    view: (id, since) => this.view(id, since),
    last: async (id) => ((await this.ask('last', id)) ?? undefined) as string | undefined,
    moved: async (id) => {
      const moved = (await this.ask('moved', id)) as MovedText | null
      return moved === null ? undefined : movedOf(moved)
    },
    heard: (id) => this.ask('heard', id) as ReturnType<ConsolesStage['heard']>,
    offered: () => this.ask('offered') as ReturnType<ConsolesStage['offered']>,
    type: async (id, typed) => void (await this.ask('type', id, typed)),
    passInput: async (id) => void (await this.ask('passInput', id)),
    resize: async (id, size) => void (await this.ask('resize', id, size)),
  }
}
