import ssh2 from 'ssh2'
import type { Client as ClientType } from 'ssh2'

/**
 * Imports ssh2, as the only file that does. ssh2 is CommonJS, and Node does not find all of its names (node:module,
 * "CommonJS Namespaces").
 */
export const { Client, Server, utils } = ssh2
export type Client = ClientType
export type * from 'ssh2'
