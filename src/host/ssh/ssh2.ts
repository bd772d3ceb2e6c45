import ssh2 from 'ssh2'
import type { Client as ClientType } from 'ssh2'

/** The one import of ssh2. It is CommonJS, whose names Node does not all find (node:module, "CommonJS Namespaces"). */
export const { Client, Server, utils } = ssh2
export type Client = ClientType
export type * from 'ssh2'
