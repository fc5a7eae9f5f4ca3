FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm pack --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production DESS_HOST=0.0.0.0 DESS_PORT=8080 DESS_DIRECTORY=/data
WORKDIR /app
COPY --from=build /app/dess-*.tgz ./
# With what a cluster and a Postgres source need.
RUN npm init -y && npm install --ignore-scripts --no-audit --no-fund ./dess-*.tgz redis pg
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.DESS_PORT || 8080) + '/health/ready').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "node_modules/dess/dist/bundle/main.js", "serve"]
