#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 fragColor;
void main() { vec3 n = normalize(vec3(v_texCoord * 2.0 - 1.0, 0.6)); vec3 r = reflect(vec3(0.0, 0.0, -1.0), n); vec3 q = refract(vec3(0.0, 0.0, -1.0), n, 0.7); fragColor = vec4(r.x * 0.5 + 0.5, q.y * 0.5 + 0.5, atan(v_texCoord.y, v_texCoord.x) / 3.2, exp(-dot(n.xy, n.xy))); }
